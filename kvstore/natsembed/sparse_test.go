package natsembed

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slidegate/slidegate/internal/testkit"
)

// TestRepeatedLinesAreLoggedOnce: of lines that differ only in numbers, one is written per interval; lines of other kinds are not affected.
func TestRepeatedLinesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		log := slog.New(newSparseHandler(slog.NewTextHandler(&b, nil))).With("store", "nats")
		for range 2 {
			log.Error("cannot connect (attempt 1): refused")
			log.Error("cannot connect (attempt 2): refused")
			log.With("a", "b").Error("cannot connect (attempt 3): refused")
			log.Error("disk full")
			testkit.Pass(sparseEvery)
		}
		if got := b.String(); strings.Count(got, "cannot connect (attempt 1)") != 2 || strings.Count(got, "cannot connect") != 2 || strings.Count(got, "disk full") != 2 {
			t.Errorf("got\n%swant each kind twice", got)
		}
		if strings.Contains(b.String(), "level=ERROR") || !strings.Contains(b.String(), "level=WARN") {
			t.Errorf("got\n%swant errors of the NATS server as warnings", b.String())
		}
	})
}
