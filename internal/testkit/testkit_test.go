package testkit

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that only notes its failure.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper()                           {}
func (f *failing) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

func TestMust(t *testing.T) {
	f := &failing{}
	if got := Must(7, nil)(f); got != 7 || f.said != "" {
		t.Errorf("got %d and the failure %q, want 7 and none", got, f.said)
	}
	Must(7, errors.New("wrong"))(f)
	if f.said != "got the error wrong, want none" {
		t.Errorf("the failure is %q, want it to have the error", f.said)
	}
}

func TestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		done := false
		time.AfterFunc(time.Hour, func() { done = true })
		if Pass(time.Hour); !done || time.Since(begun) != time.Hour {
			t.Errorf("after %v, done: %v; want an hour and what was due then", time.Since(begun), done)
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("outside of a bubble it waits for the real clock")
		}
	}()
	Pass(time.Nanosecond)
}

// Delay waits for the clock of a bubble, and for no other.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if Delay(time.Hour); time.Since(begin) != time.Hour {
			t.Errorf("%v passed", time.Since(begin))
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("it waited for the real clock")
		}
	}()
	Delay(0)
}
