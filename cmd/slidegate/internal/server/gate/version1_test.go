package gate

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/seal"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
)

// The files in testdata/version1 were written by the program before reservations and states had their second version: a
// state file in which ann has used 4 units under the policy api and 4 under plain, and two reservations of 2 and 3 of
// them.
const (
	recordedSecret = "the secret of a recording"
	recordedAt     = 1794794186500000 // a short time later
	recordedFile   = `policies:
  api:
    limits:
      - 5/43920h sliding-window
      - 20/43920h token-bucket name=bucket
      - 30/43920h fixed-window name=fixed
      - 40/43920h sliding-log name=log
      - 5000/43920h name=big
  plain:
    limits: [5/43920h]
`
)

func recorded(t *testing.T) *Gate {
	t.Helper()
	state, err := os.Open(filepath.Join("testdata", "version1", "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	store, err := memstore.Restore(state, memstore.Options{Now: func() slidegate.Micros { return recordedAt }})
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse("f", []byte(recordedFile))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(file, Stores{Open: store, Closed: store, Local: store},
		Options{Signer: seal.New(seal.Fixed([]byte(recordedSecret)), slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func recordedReservation(t *testing.T, name string) (r slidegate.Reservation) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "version1", name+".json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// left returns what ann has left of each limit of a policy.
func left(t *testing.T, g *Gate, policy string) (remaining []int64) {
	t.Helper()
	v, err := g.Peek(t.Context(), Request{Policy: policy, Key: "ann", Cost: 1})
	if err != nil {
		t.Fatal(err)
	}
	if v.Decision.Answers == nil { // of a single limit
		return []int64{v.Decision.Remaining}
	}
	for _, a := range v.Decision.Answers {
		remaining = append(remaining, a.Remaining)
	}
	return remaining
}

// TestVersion1FilesKeepTheirMeaning: files of the previous version keep their meaning, and their reservations are settled once.
func TestVersion1FilesKeepTheirMeaning(t *testing.T) {
	g := recorded(t)
	wantLeft(t, left(t, g, "api"), 1, 16, 26, 36, 4996)
	for i, repeated := range []bool{false, true} {
		done, err := g.Settle(t.Context(), "api", recordedReservation(t, "api"), slidegate.Used{Limit: "5/43920h sliding-window", Cost: 1}, slidegate.Used{Limit: "bucket", Cost: 0})
		if err != nil || done.Repeated != repeated || len(done.Limits) != 5 || done.Limits[0] != (SettledLimit{"5/43920h sliding-window", 1}) ||
			done.Limits[1] != (SettledLimit{"bucket", 2}) || done.Limits[4] != (SettledLimit{"big", 0}) {
			t.Errorf("settling, attempt %d: got %+v, %v", i+1, done, err)
		}
		wantLeft(t, left(t, g, "api"), 2, 18, 26, 36, 4996)
	}
	// The limit of plain is a sliding log now. Charges to the sliding window that it was can still be refunded.
	if done, err := g.Cancel(t.Context(), "plain", recordedReservation(t, "plain")); err != nil || done.Limits[0].Returned != 3 {
		t.Errorf("a limit whose algorithm changed: got %+v, %v; want 3 refunded", done, err)
	}
}

func wantLeft(t *testing.T, got []int64, want ...int64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("left: got %d, want %d", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("left: got %d, want %d", got, want)
			return
		}
	}
}

// TestVersion1ReservationCannotBeChanged: a client cannot turn a reservation of the earlier format into another one by changing its
// version, or by adding an algorithm that it did not name.
func TestVersion1ReservationCannotBeChanged(t *testing.T) {
	g := recorded(t)
	text, err := os.ReadFile(filepath.Join("testdata", "version1", "plain.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		from, to string
		settled  bool
	}{
		"as it is":               {"", "", true},
		"a version":              {`{"id"`, `{"version":2,"id"`, true}, // it stays a charge to a sliding window
		"an algorithm":           {`5/43920h`, `5/43920h sliding-log`, false},
		"the format":             {`.v1.`, `.v2.`, false},
		"a version and a format": {`{"id":"EVM77EN65OTRVZDFEGIMDESV3H.v1.`, `{"version":2,"id":"EVM77EN65OTRVZDFEGIMDESV3H.v2.`, false},
	} {
		var r slidegate.Reservation
		changed := strings.Replace(string(text), test.from, test.to, 1)
		if err := json.Unmarshal([]byte(changed), &r); err != nil {
			t.Fatal(err)
		}
		before := left(t, g, "plain")
		done, err := g.Cancel(t.Context(), "plain", r)
		if test.settled != (err == nil) || !test.settled && !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("%s: got %v, want no error if it may be settled, otherwise ErrReservation", name, err)
		}
		if test.settled && done.Limits[0].Limit != "5/43920h sliding-window" {
			t.Errorf("%s: got %+v, want a charge to the original sliding window", name, done)
		}
		wantLeft(t, left(t, g, "plain"), before...)
	}
}
