package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/store"
)

// RunBoard tests a store that implements store.Board and has nothing on its board yet. Both are open on the same data, as in two processes,
// and take their time only from clock; for a store in memory they are the same. Of a store whose Post returns an error that wraps
// store.ErrUnsupported, only that is tested.
func RunBoard(t *testing.T, clock *Clock, one, other store.Board) {
	b := &boards{T: t, clock: clock, one: one, other: other}
	if err := one.Post(t.Context(), "probe", "a", nil, time.Second); errors.Is(err, store.ErrUnsupported) {
		if _, err := one.Notes(t.Context(), "probe"); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("Notes of a store that keeps none: got %v, want ErrUnsupported", err)
		}
		return
	}
	b.notes()
	b.manyNotes()
	b.concurrentNotes()
	b.invalid()
}

type boards struct {
	*testing.T
	clock      *Clock
	one, other store.Board
}

// notes checks what is posted under a topic, and that it ends.
func (b *boards) notes() {
	b.want("t", nil)
	b.post(b.one, "t", "one", "first", 10*time.Second)
	b.want("t", map[string]string{"one": "first"})
	b.post(b.other, "t", "two", "", 20*time.Second)
	b.post(b.one, "t-2", "one", "elsewhere", 20*time.Second)
	b.post(b.one, "t", "one", "second", 5*time.Second)
	b.want("t", map[string]string{"one": "second", "two": ""})
	b.want("t-2", map[string]string{"one": "elsewhere"})
	b.clock.Advance(4_999_999)
	b.want("t", map[string]string{"one": "second", "two": ""})
	b.clock.Advance(1)
	b.want("t", map[string]string{"two": ""})
	b.post(b.one, "t", "one", "third", time.Minute)
	b.clock.Advance(15_000_000)
	b.want("t", map[string]string{"one": "third"})
	b.want("t-2", nil)
	b.post(b.one, "t", "one", "short", time.Second)
	b.post(b.one, "t", "one", "long", time.Hour)
	b.clock.Advance(1_800_000_000)
	b.want("t", map[string]string{"one": "long"})
	large := make([]byte, store.MaxNote)
	for i := range large {
		large[i] = byte(rand.Uint32())
	}
	b.post(b.one, "t", "one", string(large), time.Minute)
	b.post(b.other, "t", "two", string(large[:1001]), time.Minute)
	b.want("t", map[string]string{"one": string(large), "two": string(large[:1001])})
}

func (b *boards) post(by store.Board, topic, author, note string, life time.Duration) {
	b.Helper()
	text := []byte(note)
	if err := by.Post(b.Context(), topic, author, text, life); err != nil {
		b.Errorf("Post(%q, %q, %d bytes): %v", topic, author, len(note), err)
	}
	for i := range text {
		text[i] = 'x' // it belongs to the caller again
	}
}

// want checks what both stores return, twice, because what they return belongs to the caller.
func (b *boards) want(topic string, want map[string]string) {
	b.Helper()
	for range 2 {
		for _, by := range []store.Board{b.one, b.other} {
			got, err := by.Notes(b.Context(), topic)
			if err != nil || len(got) != len(want) {
				b.Errorf("Notes(%q): got %d notes, %v; want %d", topic, len(got), err, len(want))
			}
			for author, note := range got {
				if text, known := want[author]; !known || !bytes.Equal(note, []byte(text)) {
					b.Errorf("Notes(%q): got %d bytes by %q, want %d, known: %v", topic, len(note), author, len(text), known)
				}
				for i := range note {
					note[i] = 'x'
				}
			}
		}
	}
}

// manyNotes checks that a topic takes the notes of MaxNotes authors, and others again when those have ended.
func (b *boards) manyNotes() {
	for i := range store.MaxNotes {
		b.post(b.one, "many", fmt.Sprint("author-", i), "note", time.Minute)
	}
	if err := b.other.Post(b.Context(), "many", "late", nil, time.Minute); err == nil {
		b.Errorf("Post by author %d of a topic: got no error", store.MaxNotes+1)
	}
	b.post(b.other, "many", "author-0", "again", time.Minute)
	if got, err := b.other.Notes(b.Context(), "many"); err != nil || len(got) != store.MaxNotes || string(got["author-0"]) != "again" {
		b.Errorf("got %d notes, that of the first author %q, %v; want %d, and \"again\"", len(got), got["author-0"], err, store.MaxNotes)
	}
	b.clock.Advance(60_000_000)
	b.post(b.other, "many", "late", "late", time.Minute)
	b.want("many", map[string]string{"late": "late"})
}

// concurrentNotes checks that none of several that post at the same time is lost.
func (b *boards) concurrentNotes() {
	const each = 5
	var all sync.WaitGroup
	for worker, by := range []store.Board{b.one, b.other, b.one, b.other} {
		all.Go(func() {
			for i := range each {
				if err := by.Post(b.Context(), "together", fmt.Sprint(worker, "-", i), []byte{byte(i)}, time.Hour); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got, err := b.one.Notes(b.Context(), "together"); err != nil || len(got) != 4*each {
		b.Errorf("after %d posts at the same time: got %d notes, %v", 4*each, len(got), err)
	}
}

// invalid checks what is rejected, and that nothing is done for a caller that has left.
func (b *boards) invalid() {
	for name, post := range map[string]func(ctx context.Context) error{
		"no topic":       func(ctx context.Context) error { return b.one.Post(ctx, "", "a", nil, time.Second) },
		"a wrong topic":  func(ctx context.Context) error { return b.one.Post(ctx, "a:b", "a", nil, time.Second) },
		"no author":      func(ctx context.Context) error { return b.one.Post(ctx, "x", "", nil, time.Second) },
		"a wrong author": func(ctx context.Context) error { return b.one.Post(ctx, "x", "a b", nil, time.Second) },
		"a long author": func(ctx context.Context) error {
			return b.one.Post(ctx, "x", strings.Repeat("a", 65), nil, time.Second)
		},
		"a large note": func(ctx context.Context) error {
			return b.one.Post(ctx, "x", "a", make([]byte, store.MaxNote+1), time.Second)
		},
		"no life":       func(ctx context.Context) error { return b.one.Post(ctx, "x", "a", nil, 0) },
		"notes of none": func(ctx context.Context) error { _, err := b.one.Notes(ctx, ""); return err },
	} {
		if post(b.Context()) == nil {
			b.Errorf("%s: got no error", name)
		}
	}
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	if err := b.one.Post(ended, "x", "a", nil, time.Second); err == nil {
		b.Error("Post after its context has ended: got no error")
	}
	if _, err := b.one.Notes(ended, "x"); err == nil {
		b.Error("Notes after its context has ended: got no error")
	}
	b.want("x", nil)
}
