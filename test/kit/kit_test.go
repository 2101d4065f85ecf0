package kit

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetry(t *testing.T) {
	final, other := errors.New("final"), errors.New("other")
	for _, c := range []struct {
		name   string
		final  error
		try    func(waited time.Duration) error
		want   error
		waited time.Duration
	}{
		{"at once", final, func(time.Duration) error { return nil }, nil, 0},
		{"after a second", final, func(waited time.Duration) error {
			if waited < time.Second {
				return other
			}
			return nil
		}, nil, time.Second},
		{"final", final, func(time.Duration) error { return fmt.Errorf("wrapped: %w", final) }, final, 0},
		{"never", final, func(time.Duration) error { return other }, other, patience},
		{"never, and nothing is final", nil, func(time.Duration) error { return other }, other, patience},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := Retry(c.final, func() error { return c.try(time.Since(start)) })
				if !errors.Is(err, c.want) {
					t.Errorf("got error %v, want %v", err, c.want)
				}
				if waited := time.Since(start); waited != c.waited {
					t.Errorf("took %v, want %v", waited, c.waited)
				}
			})
		})
	}
}

// recordingTB is a testing.TB that only records its failure.
type recordingTB struct {
	testing.TB
	said string
}

func (f *recordingTB) Helper()                           {}
func (f *recordingTB) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

func TestMust(t *testing.T) {
	f := &recordingTB{}
	if got := Must(7, nil)(f); got != 7 || f.said != "" {
		t.Errorf("got %d and the failure %q, want 7 and none", got, f.said)
	}
	Must(7, errors.New("wrong"))(f)
	if f.said != "got error wrong, want none" {
		t.Errorf("got failure %q, want one with the error", f.said)
	}
}
