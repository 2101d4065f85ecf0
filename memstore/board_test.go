package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/storetest"
)

func newBoard(t *testing.T) (*memstore.Store, *storetest.Clock) {
	clock := storetest.NewClock(1_767_000_000e6)
	s, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s, clock
}

func TestBoard(t *testing.T) {
	s, clock := newBoard(t)
	storetest.RunBoard(t, clock, s, s)
}

// Names that are claimed fill a bounded memory, which is free again when they have ended.
func TestClaimsAreBounded(t *testing.T) {
	s, clock := newBoard(t)
	claimed := 0
	for ; claimed < 1<<20; claimed++ {
		life := time.Hour
		if claimed == 1000 {
			life = time.Minute
		}
		first, err := s.Claim(t.Context(), fmt.Sprint(claimed), life)
		if errors.Is(err, memstore.ErrFull) {
			break
		}
		if !first || err != nil {
			t.Fatalf("name %d: got %v, %v", claimed, first, err)
		}
	}
	if claimed != 1<<17 {
		t.Errorf("%d names could be claimed, want %d", claimed, 1<<17)
	}
	if first, err := s.Claim(t.Context(), "0", time.Hour); first || err != nil {
		t.Errorf("a claimed name of a full board: got %v, %v, want that it is claimed", first, err)
	}
	clock.Advance(60_000_000)
	if first, err := s.Claim(t.Context(), "one", time.Hour); !first || err != nil {
		t.Errorf("after one claim has ended: got %v, %v, want a claim", first, err)
	}
	if _, err := s.Claim(t.Context(), "two", time.Hour); !errors.Is(err, memstore.ErrFull) {
		t.Errorf("a further one: got %v, want ErrFull", err)
	}
	clock.Advance(3_600_000_000)
	for i := range 1000 {
		if first, err := s.Claim(t.Context(), fmt.Sprint("later ", i), time.Hour); !first || err != nil {
			t.Fatalf("after all have ended: got %v, %v, want a claim", first, err)
		}
	}
}
