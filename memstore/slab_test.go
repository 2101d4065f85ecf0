package memstore

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// Lines are nobody else's while they are taken, all of them come back, and so does the memory.
func TestSlabLinesAreOnesOwn(t *testing.T) {
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
					t.Error("there is no line, and memory without end")
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
		t.Fatalf("%d lines did not come back", n)
	}
	if n := taken.now.Load(); n > slabShards*slabPageBytes+slabNotesOf(s) {
		t.Fatalf("%d bytes are kept for no line", n)
	}
	s.trim()
	if n := taken.now.Load(); n != 0 {
		t.Fatalf("%d bytes are not given back", n)
	}
}

func slabNotesOf(s *slab) (bytes int64) {
	for i := range s.shards {
		bytes += int64(len(s.shards[i].notes)) * noteBytes
	}
	return bytes
}

// A page goes back when its last line does, and those that are partly used are filled first.
func TestSlabPagesGoBack(t *testing.T) {
	s, taken := unlimitedSlab()
	pages := func() int64 { return (taken.now.Load() - slabNotesOf(s)) / slabPageBytes }
	var lines []uint32
	for range 20 * slabPageLines {
		number, _ := s.get(0, 1, false)
		lines = append(lines, number)
	}
	if n := pages(); n != 20 {
		t.Fatalf("%d pages for 20 pages of lines", n)
	}
	for i, number := range lines { // all but one line of each page
		if i%slabPageLines != 7 {
			s.put(number, 1)
		}
	}
	if n := pages(); n != 20 {
		t.Fatalf("%d pages are left, each with a line in use", n)
	}
	var again []uint32
	for range 5 * (slabPageLines - 1) {
		number, _ := s.get(0, 1, false)
		again = append(again, number)
	}
	if n := pages(); n != 20 {
		t.Fatalf("%d pages, though there was room in 20", n)
	}
	for i := 7; i < len(lines); i += slabPageLines {
		s.put(lines[i], 1)
	}
	if n := pages(); n > 5+1 { // the one is kept for the next line
		t.Fatalf("%d pages for 5 pages of lines", n)
	}
	for _, number := range again {
		s.put(number, 1)
	}
	if n := pages(); n != 1 {
		t.Fatalf("%d pages for no line", n)
	}
}

// When one shard has no memory left, lines that others have are used; and then there is none, for anybody, until some come back.
func TestSlabUsesAllItHas(t *testing.T) {
	s, taken := unlimitedSlab()
	kept, _ := s.get(3, 1, false)
	taken.limit.Store(taken.now.Load())
	first, ok := s.get(5, slabPageLines-1, false)
	if !ok {
		t.Fatal("free lines of another shard are not used")
	}
	if _, ok := s.get(3, 1, false); ok {
		t.Fatal("there is a line without memory")
	}
	s.put(first, slabPageLines-1)
	if _, ok := s.get(3, slabPageLines, false); ok {
		t.Fatal("there are more lines than memory")
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
			t.Fatal("it did not")
		}
	}()
	s.put(chain, 1)
}

// A number of a line that is not there reads as zeros.
func TestSlabReadsAnyNumber(t *testing.T) {
	s, _ := unlimitedSlab()
	for range 2 {
		for _, number := range []uint32{0, 1, 63, 64, 8 * 64, 9*64 + 3, 1 << 20, 1<<32 - 1} {
			if s.line(number)[0].Load() != 0 || s.follow(number) != 0 {
				t.Fatalf("line %d is not empty", number)
			}
		}
		if _, ok := s.get(1, 1, false); !ok {
			t.Fatal("there is no line")
		}
	}
}
