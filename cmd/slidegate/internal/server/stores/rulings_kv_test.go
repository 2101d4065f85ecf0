package stores

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings/rulingstest"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/rule"
)

// memoryEngine is a key-value engine in memory that immediately drops entries that are not kept forever.
type memoryEngine struct {
	mu     sync.Mutex
	writes uint64
	all    map[string]memoryEntry
}

type memoryEntry struct {
	value    []byte
	revision uint64
}

func (s *memoryEngine) Get(_ context.Context, name string) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.all[name]
	return kept.value, kept.revision, nil
}

func (s *memoryEngine) Swap(_ context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[name].revision != revision {
		return 0, fmt.Errorf("shelf: %w", kvstore.ErrConflict)
	}
	s.writes++
	if s.all[name] = (memoryEntry{bytes.Clone(value), s.writes}); keep != forever {
		delete(s.all, name)
	}
	return s.writes, nil
}

func (s *memoryEngine) Now() rule.Micros { return 0 }

func (s *memoryEngine) Traits() kvstore.Traits {
	return kvstore.Traits{Name: "shelf", MaxValue: 1 << 20}
}

// TestRulingsInKV: the keeper passes the common tests, and leaves no unneeded entries behind.
func TestRulingsInKV(t *testing.T) {
	engine := &memoryEngine{all: map[string]memoryEntry{}}
	one, other := newKVRulings("shelf", "p", engine), newKVRulings("shelf", "p", engine)
	read := func() *head {
		h, err := one.readHead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	rulingstest.Exercise(t, one, other, func(all []rulings.Ruling) {
		d := &draft{keeper: one, head: read(), sheets: map[uint8]*sheet{}}
		for i := range all {
			if err := d.change(t.Context(), &all[i], nil); err != nil {
				t.Fatal(err)
			}
		}
		d.head.Last = nil
		replaced, _, err := d.write(t.Context())
		if err == nil {
			err = one.writeHead(t.Context(), d.head)
		}
		if err != nil {
			t.Fatal(err)
		}
		one.expire(t.Context(), replaced)
	})
	h := read()
	if got, want := len(engine.all), 1+len(h.Sheets)+len(h.Log); got != want {
		t.Errorf("got %d entries, want the head and its %d sheets", got, want-1)
	}
}

// TestLogInKV: the log has the last changes, and no more of them than required.
func TestLogInKV(t *testing.T) {
	engine := &memoryEngine{all: map[string]memoryEntry{}}
	keeper := newKVRulings("shelf", "p", engine)
	const changes = rulings.MaxLog + 3*logSheet + 1
	for i := range changes {
		if err := keeper.Apply(t.Context(), rulings.Ruling{Policy: "p", Key: "a", Kind: rulings.Block, Why: fmt.Sprint(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	log, err := keeper.Log(t.Context(), changes)
	if err != nil || len(log) != rulings.MaxLog || log[0].Why != fmt.Sprint(changes-1) || log[rulings.MaxLog-1].Why != fmt.Sprint(changes-rulings.MaxLog) {
		t.Errorf("got %d changes, %v; want the last %d, newest first", len(log), err, rulings.MaxLog)
	}
	if got, most := len(engine.all), 2+rulings.MaxLog/logSheet+1; got > most {
		t.Errorf("got %d entries, want at most %d", got, most)
	}
}

// TestLargestRulingsInKV: the maximum number of rulings, each of maximum size, fits into sheets.
func TestLargestRulingsInKV(t *testing.T) {
	var sheets [256]int
	largest := 0
	for i := range rulings.MaxRulings {
		r := rulings.Ruling{
			Policy: "p", Key: fmt.Sprintf("%04d%s", i, strings.Repeat("\x01", 1020)), Kind: rulings.Limits, Who: strings.Repeat("<", 128), Why: strings.Repeat("<", 512),
			Limits: []string{"1000000/1h", "1000000/1d"}, At: time.Now(), Until: time.Now(),
		}
		if i == 0 {
			largest = len(r.Text())
		}
		sheets[sheetIndex(&r)]++
	}
	if size, most := slices.Max(sheets[:])*largest, (&memoryEngine{}).Traits().MaxValue; size > most {
		t.Errorf("a sheet of %d rulings takes %d bytes, but an entry holds %d", slices.Max(sheets[:]), size, most)
	}
}

// TestKeyInKV: all instances get the key that was kept first.
func TestKeyInKV(t *testing.T) {
	engine := &memoryEngine{all: map[string]memoryEntry{}}
	for _, proposed := range []string{"first", "second"} {
		if kept, err := keepKeyInKV("shelf", "p", engine)(t.Context(), []byte(proposed)); err != nil || string(kept) != "first" {
			t.Errorf("proposing %s: got %q, %v, want first", proposed, kept, err)
		}
	}
}
