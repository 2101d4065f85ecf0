package memstore_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/formats"
	"github.com/slidegate/slidegate/test/kit"
)

// What a released version has recorded in a folder is read, and recorded the same; see package formats. TestReadsReleasedFiles in
// internal/journal has the files around the records.
func TestReadsReleasedFormats(t *testing.T) {
	t.Run("requests", func(t *testing.T) { formats.Check(t, "../formats/testdata/memory.txt", &folder{}) })
	t.Run("checkpoint", func(t *testing.T) {
		formats.Check(t, "../formats/testdata/memory-checkpoint.txt", &folder{checkpoint: true})
	})
}

// folder is a folder of a store as lines: its records. Bytes are hexadecimal.
type folder struct {
	dir        string
	store      *memstore.Store
	checkpoint bool // before it is dumped
}

// Kinds of records whose bytes are not the same each time.
const (
	kindStore       = 1
	kindSettlements = 8
	kindDocument    = 9
)

// secret replaces the random key of the hashes.
const secret = "a secret of 16 b"

// close ends the use of the folder.
func (f *folder) close(t testing.TB) {
	t.Helper()
	if f.store != nil {
		if err := f.store.Close(); err != nil {
			t.Fatal(err)
		}
		f.store = nil
	}
}

func (f *folder) Clear(t testing.TB) {
	f.Load(t, []string{fmt.Sprintf("record %d %x", kindStore, secret)})
}

func (f *folder) Load(t testing.TB, lines []string) {
	t.Helper()
	f.close(t)
	if f.dir != "" {
		if err := os.RemoveAll(f.dir); err != nil {
			t.Fatal(err)
		}
	}
	f.dir = filepath.Join(t.TempDir(), "state")
	j, _, err := journal.Open(f.dir, journal.Options{Segment: small}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		words := strings.Split(line, " ")
		number, err := strconv.ParseUint(words[1], 10, 32)
		body := kit.Must(hex.DecodeString(words[2]))(t)
		durable := false
		switch {
		case err != nil:
		case words[0] == "note" && len(body) == 16:
			_, durable = j.Note(uint32(number), binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:]))
		case words[0] == "record":
			_, durable = j.Append(uint8(number), body)
		}
		if !durable {
			t.Fatalf("not recorded: %s, %v", line, err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// small is the size of a file for one history.
const small = 1 << 20

func (f *folder) Open(t testing.TB, now func() rule.Micros) store.Store {
	t.Helper()
	f.close(t)
	f.store = kit.Must(memstore.Open(f.dir, memstore.Options{Now: now}))(t)
	t.Cleanup(func() { f.close(t) })
	return f.store
}

func (f *folder) Dump(t testing.TB) (lines []string) {
	t.Helper()
	if f.checkpoint {
		if err := f.store.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	f.close(t)
	_, err := journal.Inspect(f.dir, func(r journal.Record) error {
		if r.IsNote {
			lines = append(lines, fmt.Sprintf("note %d %016x%016x", r.Tag, r.A, r.B))
			return nil
		}
		body := slices.Clone(r.Body)
		switch r.Kind {
		case kindDocument:
			copy(body[1+body[0]/2:], "revision") // it is random; the length of the name before it is a varint of one byte
		case kindSettlements:
			for _, one := range settlements(body) {
				lines = append(lines, fmt.Sprintf("record %d %x", r.Kind, one))
			}
			return nil
		}
		lines = append(lines, fmt.Sprintf("record %d %x", r.Kind, body))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.checkpoint { // the order of limits and settlements in it is random
		slices.Sort(lines)
	}
	return lines
}

// settlements splits a record with several: each has three hashes, two times, and a list of numbers with its length.
func settlements(body []byte) (all [][]byte) {
	for len(body) > 0 {
		at := 3 * 8
		next := func() int64 {
			n, size := binary.Varint(body[at:])
			at += size
			return n
		}
		next()
		next()
		for range next() {
			next()
		}
		all = append(all, body[:at])
		body = body[at:]
	}
	return all
}
