package kvstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func boardOver(t *testing.T, engine kvstore.Engine, clock *storetest.Clock) *kvstore.Store {
	s, err := kvstore.New(engine, kvstore.Options{Now: clock.Now, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBoard(t *testing.T) {
	clock, table := storetest.NewClock(1_767_000_000e6), &kvtest.Table{}
	storetest.RunBoard(t, clock, boardOver(t, table, clock), boardOver(t, table, clock))
}

// Entries of the board are kept for their life and the grace period, and one that posts every second rarely changes the list of authors.
func TestBoardEntriesExpire(t *testing.T) {
	clock := storetest.NewClock(1_767_000_000e6)
	var kept []time.Duration
	table := &kvtest.Table{Before: func(_ context.Context, call kvtest.Call) error {
		if call.Swap {
			kept = append(kept, call.Keep)
		}
		return nil
	}}
	s := boardOver(t, table, clock)
	if first, err := s.Claim(t.Context(), "a", time.Hour); !first || err != nil {
		t.Fatalf("got %v, %v, want a claim", first, err)
	}
	if len(kept) != 1 || kept[0] != time.Hour+time.Minute {
		t.Errorf("a claim: got entries kept for %v, want an hour and the grace period", kept)
	}
	kept = nil
	for range 50 {
		if err := s.Post(t.Context(), "look", "one", []byte("note"), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		clock.Advance(1_000_000)
	}
	lists := 0
	for _, keep := range kept {
		switch keep {
		case 2 * time.Minute:
			lists++
		case 65 * time.Second:
		default:
			t.Errorf("an entry is kept for %v", keep)
		}
	}
	if lists != 1 || len(kept) != 51 {
		t.Errorf("50 posts: got %d swaps, %d of them of the list; want 51, and 1", len(kept), lists)
	}
}

// An engine that takes no note is not asked to, and claims work.
func TestRefusesNotes(t *testing.T) {
	small, err := kvstore.New(&kvtest.Table{MaxValue: store.MaxNote}, kvstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := small.Post(t.Context(), "look", "one", nil, time.Second); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Post: got %v, want ErrUnsupported", err)
	}
	if _, err := small.Notes(t.Context(), "look"); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("Notes: got %v, want ErrUnsupported", err)
	}
	if _, err := small.Claim(t.Context(), "a", time.Second); err != nil {
		t.Errorf("Claim: %v", err)
	}
}
