package memstore

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// A line belongs to one owner while it is taken, all lines are returned in the end, and so is the memory.
func TestSlabLinesHaveOneOwner(t *testing.T) {
	s, taken := unlimitedSlab()
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(w, 3))
			type chain struct {
				first uint32
				n     int
				mark  uint64
			}
			var chains []chain
			check := func(c chain) {
				number := c.first
				for range c.n {
					if got := s.line(number)[0].Load(); got != c.mark {
						t.Errorf("a line marked %d has the mark %d", c.mark, got)
					}
					number = s.follow(number)
				}
			}
			for i := range uint64(3000) {
				if len(chains) > 100 || len(chains) > 0 && random.IntN(3) == 0 {
					at := random.IntN(len(chains))
					check(chains[at])
					s.put(chains[at].first, chains[at].n)
					chains[at] = chains[len(chains)-1]
					chains = chains[:len(chains)-1]
					continue
				}
				c := chain{n: 1 + random.IntN(20), mark: w<<32 | i}
				var ok bool
				if c.first, ok = s.get(random.Uint64(), c.n, false); !ok {
					t.Error("got no line although memory is unlimited")
					return
				}
				number := c.first
				for range c.n {
					s.line(number)[0].Store(c.mark)
					number = s.follow(number)
				}
				chains = append(chains, c)
			}
			for _, c := range chains {
				check(c)
				s.put(c.first, c.n)
			}
		})
	}
	wg.Wait()
	if n := linesInUse(s); n != 0 {
		t.Fatalf("%d lines were not returned", n)
	}
	if n := taken.now.Load(); n > slabShards*slabPageBytes+slabNotesOf(s) {
		t.Fatalf("%d bytes are held for no line", n)
	}
	s.trim()
	if n := taken.now.Load(); n != 0 {
		t.Fatalf("%d bytes were not released", n)
	}
}

func slabNotesOf(s *slab) (bytes int64) {
	for i := range s.shards {
		bytes += int64(len(s.shards[i].notes)) * noteBytes
	}
	return bytes
}

// A page is released along with its last line, and partly used pages are filled first.
func TestSlabReleasesPages(t *testing.T) {
	s, taken := unlimitedSlab()
	pages := func() int64 { return (taken.now.Load() - slabNotesOf(s)) / slabPageBytes }
	var lines []uint32
	for range 20 * slabPageLines {
		number, _ := s.get(0, 1, false)
		lines = append(lines, number)
	}
	if n := pages(); n != 20 {
		t.Fatalf("got %d pages for 20 pages of lines", n)
	}
	for i, number := range lines { // all but one line of each page
		if i%slabPageLines != 7 {
			s.put(number, 1)
		}
	}
	if n := pages(); n != 20 {
		t.Fatalf("got %d pages, each with a line in use", n)
	}
	var again []uint32
	for range 5 * (slabPageLines - 1) {
		number, _ := s.get(0, 1, false)
		again = append(again, number)
	}
	if n := pages(); n != 20 {
		t.Fatalf("got %d pages although there was space in 20", n)
	}
	for i := 7; i < len(lines); i += slabPageLines {
		s.put(lines[i], 1)
	}
	if n := pages(); n > 5+1 { // one is kept for the next line
		t.Fatalf("got %d pages for 5 pages of lines", n)
	}
	for _, number := range again {
		s.put(number, 1)
	}
	if n := pages(); n != 1 {
		t.Fatalf("got %d pages for no line", n)
	}
}

// When one shard has no memory left, lines of other shards are used; after that there are none until some are returned.
func TestSlabUsesAllItHas(t *testing.T) {
	s, taken := unlimitedSlab()
	kept, _ := s.get(3, 1, false)
	taken.limit.Store(taken.now.Load())
	first, ok := s.get(5, slabPageLines-1, false)
	if !ok {
		t.Fatal("free lines of another shard are not used")
	}
	if _, ok := s.get(3, 1, false); ok {
		t.Fatal("got a line without memory")
	}
	s.put(first, slabPageLines-1)
	if _, ok := s.get(3, slabPageLines, false); ok {
		t.Fatal("got more lines than there is memory for")
	}
	if n := linesInUse(s); n != 1 {
		t.Fatalf("%d lines in use after a get that failed, want 1", n)
	}
	s.put(kept, 1)
}

func TestSlabPanicsWhenALineIsGivenBackTwice(t *testing.T) {
	s, _ := unlimitedSlab()
	chain, _ := s.get(0, 2, false)
	s.put(chain, 1)
	defer func() {
		if recover() == nil {
			t.Fatal("it did not panic")
		}
	}()
	s.put(chain, 1)
}

// The number of a line that does not exist reads as zeros.
func TestSlabReadsAnyNumber(t *testing.T) {
	s, _ := unlimitedSlab()
	for range 2 {
		for _, number := range []uint32{0, 1, 63, 64, 8 * 64, 9*64 + 3, 1 << 20, 1<<32 - 1} {
			if s.line(number)[0].Load() != 0 || s.follow(number) != 0 {
				t.Fatalf("line %d is not empty", number)
			}
		}
		if _, ok := s.get(1, 1, false); !ok {
			t.Fatal("got no line")
		}
	}
}
