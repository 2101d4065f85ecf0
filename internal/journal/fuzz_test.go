package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/internal/testkit"
)

// FuzzOpen opens folders of any files. The first two bytes say whether the operating system was restarted, and what is made valid again:
// checksums keep the fuzzer from most of the code otherwise. Each file follows its length, in four bytes.
func FuzzOpen(f *testing.F) {
	for _, synced := range []bool{false, true} {
		d := newDisk()
		j, c, _, err := restored("disk", journal.Options{Files: d, Synced: synced, Segment: small})
		if err != nil {
			f.Fatal(err)
		}
		c.add(j, 1)
		testkit.Must(0, c.checkpoint(j))(f)
		c.add(j, 1)
		for _, sealed := range []byte{0, 1, 2, 3} {
			f.Add(packed(d, sealed|8))
		}
		_ = j.Close()
		f.Add(packed(d, 0))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		d, synced := unpacked(data)
		report, records, err := openAs(t, d, synced)
		if err != nil {
			if !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrNewer) {
				t.Errorf("got the error %v, want ErrDamaged", err)
			}
			return
		}
		again, twice, err := openAs(t, d, synced)
		if err != nil || !slices.Equal(records, twice) {
			t.Errorf("the second time: got %d records and %v, want %d records; reports %+v and %+v", len(twice), err, len(records), report, again)
		}
	})
}

func packed(d *disk, sealed byte) []byte {
	text := []byte{1, sealed}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		if name != "lock" {
			file := slices.Clone(d.names[name].now) // without most zeros: the fuzzer is slow with long inputs
			file = append(slices.Concat(file[:128], file[512:544], file[1024:1056]), bytes.TrimRight(file[4096:], "\x00")...)
			text = binary.LittleEndian.AppendUint32(text, uint32(len(file)))
			text = append(text, file...)
		}
	}
	return text
}

func unpacked(data []byte) (d *disk, synced bool) {
	d = newDisk()
	if len(data) < 2 {
		return d, false
	}
	sameBoot, sealed, data := data[0]&1 != 0, data[1], data[2:]
	for n := uint64(1); len(data) > 4 && n < 20; n++ {
		size := min(int(binary.LittleEndian.Uint32(data)), len(data)-4)
		text := slices.Clone(data[4 : 4+size])
		data = data[4+size:]
		if len(text) >= 192 {
			page := make([]byte, 4096)
			copy(page, text[:128])
			copy(page[512:], text[128:160])
			copy(page[1024:], text[160:192])
			text = append(page, text[192:]...)
		}
		if sealed&8 != 0 && len(text) < small {
			text = append(text, make([]byte, small-len(text))...)
		}
		journal.Reseal(text, n, sealed&1 != 0, sealed&2 != 0)
		if sameBoot && len(text) > 64 {
			d.boot = journal.Boot(text)
		}
		d.names[journal.SegmentName(n)] = &content{now: text}
	}
	return d, sealed&4 != 0
}
