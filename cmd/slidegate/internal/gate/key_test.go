package gate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// memoryKeeper is a Keeper that can lose its key, and be down.
type memoryKeeper struct {
	key   []byte
	down  bool
	calls int
}

func (s *memoryKeeper) keep(_ context.Context, proposed []byte) ([]byte, error) {
	s.calls++
	if s.down {
		return nil, errors.New("down")
	}
	if s.key == nil {
		s.key = bytes.Clone(proposed)
	}
	return s.key, nil
}

func newKey(k Keeper) *Key { return NewKey(k, slog.New(slog.DiscardHandler)) }

var text = []byte("text")

// TestSharedKeySignsForAll: services that share a keeper accept each other's signatures, and others do not.
func TestSharedKeySignsForAll(t *testing.T) {
	s := &memoryKeeper{}
	one, two, stranger := newKey(s.keep), newKey(s.keep), newKey(nil)
	signature := one.sign(t.Context(), text)
	for name, test := range map[string]struct {
		by              *Key
		text, signature string
		want            bool
	}{
		"itself": {one, "text", signature, true}, "another": {two, "text", signature, true}, "a stranger": {stranger, "text", signature, false},
		"another text": {two, "test", signature, false}, "another signature": {two, "text", stranger.sign(t.Context(), text), false},
		"a part": {two, "text", signature[:40], false}, "nothing": {two, "text", "", false}, "not base64": {two, "text", signature + "=", false},
		// The last character has two unused bits, which must be zero: a second spelling is not accepted.
		"another spelling": {two, "text", signature[:42] + string(signature[42]+1), false},
	} {
		if got := test.by.verify(t.Context(), []byte(test.text), test.signature); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	if strings.Contains(signature, ".") || len(signature) != 43 {
		t.Errorf("got the signature %q, want 43 letters and digits", signature)
	}
}

// TestSameSecretGivesSameKey: the same secret gives the same key.
func TestSameSecretGivesSameKey(t *testing.T) {
	secret := []byte("a secret of some length")
	signature := newKey(KeyFrom(secret)).sign(t.Context(), text)
	if !newKey(KeyFrom(secret)).verify(t.Context(), text, signature) {
		t.Error("another service with the same secret rejects the signature")
	}
	if newKey(KeyFrom([]byte("another secret of some length"))).verify(t.Context(), text, signature) {
		t.Error("a service with another secret accepts the signature")
	}
}

// TestSignaturesStayValidWithoutKeeper: signatures made without a shared key stay valid for the process that made them.
func TestSignaturesStayValidWithoutKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryKeeper{down: true}
		one, two := newKey(s.keep), newKey(s.keep)
		early := one.sign(t.Context(), text)
		for range 100 {
			one.sign(t.Context(), text)
		}
		if s.calls != 1 {
			t.Errorf("got %d calls to the keeper within a second, want 1", s.calls)
		}
		s.down = false
		time.Sleep(time.Second)
		two.sign(t.Context(), text) // its key is the stored one
		late := one.sign(t.Context(), text)
		if !one.verify(t.Context(), text, early) || !one.verify(t.Context(), text, late) || !two.verify(t.Context(), text, late) {
			t.Error("a signature is no longer accepted")
		}
	})
}

// TestLostKeyIsRestored: a keeper that has lost its key gets it back, and a keeper's new key is used.
func TestLostKeyIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryKeeper{}
		one := newKey(s.keep)
		before := one.sign(t.Context(), text)
		s.key = nil
		time.Sleep(time.Minute)
		one.sign(t.Context(), text)
		if restarted := newKey(s.keep); !restarted.verify(t.Context(), text, before) {
			t.Error("the key was lost, although a service had it")
		}
		s.key = nil
		other := newKey(s.keep)
		theirs := other.sign(t.Context(), text) // before the first noticed
		time.Sleep(time.Second)
		if !one.verify(t.Context(), text, theirs) || !one.verify(t.Context(), text, before) {
			t.Error("a service does not use the keeper's new key, or forgets the previous one")
		}
		calls := s.calls
		for range 100 {
			one.verify(t.Context(), text, "AAAA")
		}
		if s.calls != calls {
			t.Errorf("got %d calls to the keeper within a second because of invalid signatures", s.calls-calls)
		}
	})
}

// TestMissingKeyIsLoggedOnce: a missing or invalid stored key is logged once, not at every attempt.
func TestMissingKeyIsLoggedOnce(t *testing.T) {
	for want, s := range map[string]*memoryKeeper{"error=down": {down: true}, "has 5 bytes, want 32": {key: []byte("short")}} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			key := NewKey(s.keep, slog.New(slog.NewTextHandler(&log, nil)))
			for range 5 {
				key.sign(t.Context(), text)
				time.Sleep(retryAfter)
			}
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) || s.calls != 5 {
				t.Errorf("got %d calls and the log\n%s, want one line with %q", s.calls, got, want)
			}
		})
	}
}
