package testkit

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// recordingTB is a test that only records its failure.
type recordingTB struct {
	testing.TB
	message string
}

func (f *recordingTB) Helper()                           {}
func (f *recordingTB) Fatalf(format string, args ...any) { f.message = fmt.Sprintf(format, args...) }

func TestMust(t *testing.T) {
	f := &recordingTB{}
	if got := Must(7, nil)(f); got != 7 || f.message != "" {
		t.Errorf("got %d and the failure %q, want 7 and none", got, f.message)
	}
	Must(7, errors.New("wrong"))(f)
	if f.message != "got the error wrong, want none" {
		t.Errorf("got the failure %q, want it to contain the error", f.message)
	}
}

func TestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		done := false
		time.AfterFunc(time.Hour, func() { done = true })
		if Pass(time.Hour); !done || time.Since(begun) != time.Hour {
			t.Errorf("passed %v, done: %v; want an hour, with everything that was due done", time.Since(begun), done)
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("outside a bubble it did not panic")
		}
	}()
	Pass(time.Nanosecond)
}

// Delay waits for the clock of a bubble, and for no other.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if Delay(time.Hour); time.Since(begin) != time.Hour {
			t.Errorf("passed %v, want an hour", time.Since(begin))
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("outside a bubble it did not panic")
		}
	}()
	Delay(0)
}
