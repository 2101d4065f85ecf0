package journal_test

import (
	"errors"
	"flag"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/internal/testkit"
)

var damages = flag.Int("damages", 13_000, "how many damaged folders are opened")

// folder is what a process left behind.
type folder struct {
	name   string
	files  *disk
	synced bool
	want   [2]left // as the same boot and as another one replay it
}

// left is what is replayed of a folder.
type left struct {
	records prints
	report  journal.Report
}

// prints has a number for each record, which is faster to compare than the record.
type prints []uint64

var printSeed = maphash.MakeSeed()

func (p *prints) add(r journal.Record) error {
	*p = append(*p, maphash.Comparable(printSeed, [4]uint64{uint64(r.Tag), r.A, r.B, uint64(r.Kind)})^maphash.Bytes(printSeed, r.Body))
	return nil
}

// A damaged file is an error, or what is missing is counted. No record is invented, and what was replayed once is replayed again.
func TestDamagedFiles(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	folders := leftBehind(t)
	outcomes := map[string]int{}
	if testing.Short() {
		*damages = min(*damages, 1300)
	}
	for n := range *damages {
		f := folders[n%len(folders)]
		d := f.files.afterKill()
		otherBoot := 0
		if random.IntN(3) == 0 {
			otherBoot, d.boot = 1, anotherBoot(d.boot)
		}
		kind := kinds[random.IntN(len(kinds))]
		touchesEnd := kind.damage(random, d)
		outcome := openDamaged(t, d, f.want[0].records, f.want[otherBoot], f.synced, touchesEnd)
		if t.Failed() {
			t.Fatalf("%d: %s, %s, other boot: %v", n, f.name, kind.name, otherBoot)
		}
		outcomes[kind.name+": "+outcome]++
	}
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%6d %s", outcomes[o], o)
	}
}

// openDamaged opens a folder twice, and returns what happened.
func openDamaged(t *testing.T, d *disk, all prints, expected left, synced, touchesEnd bool) string {
	report, got, err := openAs(t, d, synced)
	switch {
	case errors.Is(err, journal.ErrNewer):
		return "newer"
	case errors.Is(err, journal.ErrDamaged):
		return "error"
	case err != nil:
		t.Errorf("got the error %v, want ErrDamaged", err)
	case !isPart(got, all):
		t.Errorf("replayed something that was not recorded there; report %+v", report)
	}
	again, twice, err := openAs(t, d, synced)
	if err != nil || !slices.Equal(got, twice) {
		t.Errorf("the second time: got %d records and %v, want %d records; reports %+v and %+v", len(twice), err, len(got), report, again)
	}
	before := expected.report
	switch want := expected.records; {
	case slices.Equal(got, want):
		return "nothing is missing"
	case report.Holes > before.Holes, report.HoleBytes > before.HoleBytes, report.Unfinished > before.Unfinished, report.Blanks > before.Blanks, report.CutAt != before.CutAt:
		return "counted"
	case touchesEnd && len(got) < len(want) && slices.Equal(got, want[:len(got)]):
		return "the end is missing"
	}
	t.Errorf("got %d records, want %d, and nothing is counted; report %+v, undamaged %+v", len(got), len(expected.records), report, before)
	return ""
}

func openAs(t testing.TB, d *disk, synced bool) (journal.Report, prints, error) {
	t.Helper()
	var l prints
	j, report, err := journal.Open("disk", journal.Options{Files: d, Synced: synced, Segment: small}, l.add)
	if err == nil {
		testkit.Must(0, j.Close())(t)
	}
	return report, l, err
}

// isPart reports whether all of part are in all, in that order.
func isPart(part, all prints) bool {
	for _, p := range part {
		i := slices.Index(all, p)
		if i < 0 {
			return false
		}
		all = all[i+1:]
	}
	return true
}

// leftBehind returns folders that processes left behind.
func leftBehind(t testing.TB) (folders []folder) {
	for _, degree := range slices.Sorted(maps.Keys(degrees)) {
		for _, closed := range []bool{true, false} {
			dir := filepath.Join(t.TempDir(), "state")
			opts := degrees[degree](dir)
			opts.Segment = small
			f := folder{name: degree, synced: opts.Synced}
			if closed {
				f.name += ", closed"
			}
			f.files = leave(t, dir, opts, closed)
			for otherBoot := range f.want {
				d := f.files.afterKill()
				if otherBoot == 1 {
					d.boot = anotherBoot(d.boot)
				}
				report, records, err := openAs(t, d, f.synced)
				if f.want[otherBoot] = (left{records, report}); err != nil || len(f.want[0].records) < 1100 {
					t.Fatalf("%s: found %d records, and the error %v", f.name, len(records), err)
				}
			}
			folders = append(folders, f)
		}
	}
	return folders
}

func anotherBoot(b [16]byte) [16]byte {
	b[5] ^= 0xff
	return b
}

// leave uses a folder by two processes, of which the first is closed, and returns its files.
func leave(t testing.TB, dir string, opts journal.Options, closed bool) *disk {
	j, _, _ := open(t, dir, opts)
	fill(j, 0, 900)
	testkit.Must(0, j.Begin())(t)
	fill(j, 1500, 600)
	testkit.Must(0, j.Commit())(t)
	fill(j, 2500, 300)
	testkit.Must(0, j.Close())(t)
	stuck := newStuck()
	opts.Pause = stuck.pause
	j, _, _ = open(t, dir, opts)
	fill(j, 4000, 100)
	stuck.run("reserved", func() { j.Note(9, 1, 1) })
	fill(j, 4500, 100)
	stuck.run("opened", func() { j.Append(9, make([]byte, 100)) })
	testkit.Must(0, fill(j, 4800, 400))(t)
	if closed {
		stuck.release()
		testkit.Must(0, j.Close())(t)
	}
	d := newDisk()
	for _, entry := range testkit.Must(os.ReadDir(dir))(t) {
		if text := testkit.Must(os.ReadFile(filepath.Join(dir, entry.Name())))(t); filepath.Ext(entry.Name()) == ".log" && len(text) > 0 {
			d.names[entry.Name()] = &content{now: text}
			if b := journal.Boot(text); b != [16]byte{} {
				d.boot = b
			}
		}
	}
	stuck.release()
	return d
}

// fill appends different records, and waits for the last one.
func fill(j *journal.Journal, from, n int) error {
	var at journal.Position
	for i := from; i < from+n; i++ {
		if i%5 == 0 {
			at, _ = j.Append(uint8(i%200), []byte(repeated(i)))
		} else {
			at, _ = j.Note(uint32(i), uint64(i)*0x9e3779b97f4a7c15, uint64(i))
		}
	}
	if !j.Wait(at) {
		return errors.New("not durable")
	}
	return nil
}

func repeated(i int) string {
	text := make([]byte, i%90+8)
	for k := range text {
		text[k] = byte(i >> (k % 2 * 8))
	}
	return string(text)
}

// stuck lets calls of a journal stop at a point for a while.
type stuck struct {
	at       chan string // the point where the next one stops
	arrived  chan struct{}
	go_      chan struct{}
	finished []chan struct{}
}

func newStuck() *stuck {
	return &stuck{at: make(chan string, 1), arrived: make(chan struct{}), go_: make(chan struct{})}
}

func (s *stuck) pause(point string) {
	select {
	case at := <-s.at:
		if at != point {
			s.at <- at
			return
		}
		s.arrived <- struct{}{}
		<-s.go_
	default:
	}
}

// run calls f in a goroutine until it stops at a point, if it ever does.
func (s *stuck) run(point string, f func()) {
	done := make(chan struct{})
	s.finished = append(s.finished, done)
	s.at <- point
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-s.arrived:
	case <-done: // written in order: there is no such point
		<-s.at
	}
}

func (s *stuck) release() {
	select {
	case <-s.go_:
	default:
		close(s.go_)
	}
	for _, done := range s.finished {
		<-done
	}
}

// kinds are the ways to damage a folder. Each reports whether the last records may be gone without a trace.
var kinds = []struct {
	name   string
	damage func(random *rand.Rand, d *disk) (touchesEnd bool)
}{
	{"bit", func(random *rand.Rand, d *disk) bool {
		text := anyFile(random, d)
		text[anyOffset(random, text)] ^= 1 << random.IntN(8)
		return false
	}},
	{"bytes", func(random *rand.Rand, d *disk) bool {
		text := anyFile(random, d)
		for range 1 + random.IntN(16) {
			text[anyOffset(random, text)] = byte(random.Uint32())
		}
		return false
	}},
	{"cut", func(random *rand.Rand, d *disk) bool {
		name, last := anyName(random, d), lastName(d)
		d.names[name].now = d.names[name].now[:random.IntN(len(d.names[name].now))]
		return name == last
	}},
	{"swapped blocks", func(random *rand.Rand, d *disk) bool {
		size := []int{512, 4096}[random.IntN(2)]
		a, b := anyFile(random, d), anyFile(random, d)
		if len(a) < size || len(b) < size {
			return true
		}
		x, y := random.IntN(len(a)/size)*size, random.IntN(len(b)/size)*size
		kept := slices.Clone(a[x : x+size])
		copy(a[x:x+size], b[y:y+size])
		copy(b[y:y+size], kept)
		return true
	}},
	{"hole", func(random *rand.Rand, d *disk) bool {
		name, last := anyName(random, d), lastName(d)
		text := d.names[name].now
		at := anyOffset(random, text) &^ 7
		clear(text[at:min(len(text), at+8<<random.IntN(11))])
		return name == last
	}},
	{"half-written record", func(random *rand.Rand, d *disk) bool {
		text := anyFile(random, d)
		at := anyOffset(random, text) &^ 7
		clear(text[at:min(len(text), (at+4096)&^4095)])
		return true
	}},
	{"version", func(random *rand.Rand, d *disk) bool {
		journal.Version(anyFile(random, d), random.Uint64N(4), random.IntN(2) == 0)
		return false
	}},
}

func anyName(random *rand.Rand, d *disk) string {
	names := slices.Sorted(maps.Keys(d.names))
	for {
		if name := names[random.IntN(len(names))]; len(d.names[name].now) > 200 {
			return name
		}
	}
}

func lastName(d *disk) string {
	names := slices.Sorted(maps.Keys(d.names))
	for i := len(names) - 1; ; i-- {
		if text := d.names[names[i]].now; len(text) == 0 || journal.Boot(text) != [16]byte{} {
			return names[i]
		}
	}
}

func anyFile(random *rand.Rand, d *disk) []byte { return d.names[anyName(random, d)].now }

// anyOffset returns an offset, often one in the header.
func anyOffset(random *rand.Rand, text []byte) int {
	switch random.IntN(6) {
	case 0:
		return random.IntN(min(128, len(text)))
	case 1:
		return min(512<<random.IntN(2)+random.IntN(32), len(text)-1)
	}
	return random.IntN(len(text))
}
