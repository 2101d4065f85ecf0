package formats

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Entries is a key-value engine as a Server: a line has the name of an entry, and its value in hexadecimal. Its functions use the client of
// the engine, not package kvstore.
type Entries struct {
	Names  func(t testing.TB) []string
	Get    func(t testing.TB, name string) []byte
	Put    func(t testing.TB, name string, value []byte)
	Forget func(t testing.TB) // all entries
	New    func(t testing.TB, now func() rule.Micros) store.Store
}

// Clear forgets all entries.
func (e Entries) Clear(t testing.TB) { e.Forget(t) }

// Open opens a store.
func (e Entries) Open(t testing.TB, now func() rule.Micros) store.Store { return e.New(t, now) }

// Dump returns all entries.
func (e Entries) Dump(t testing.TB) (lines []string) {
	for _, name := range e.Names(t) {
		lines = append(lines, fmt.Sprintf("entry %s %x", name, e.Get(t, name)))
	}
	slices.Sort(lines)
	return lines
}

// Load puts entries.
func (e Entries) Load(t testing.TB, lines []string) {
	t.Helper()
	for _, line := range lines {
		words := strings.Split(line, " ")
		value, err := hex.DecodeString(words[len(words)-1])
		if len(words) != 3 || words[0] != "entry" || err != nil {
			t.Fatalf("invalid line %s", line)
		}
		e.Put(t, words[1], value)
	}
}

// NewerEntry returns the line of an entry with the number of a newer format, which is its first byte.
func NewerEntry(line string) string {
	at := strings.LastIndexByte(line, ' ') + 1
	return line[:at] + fmt.Sprintf("%02x", Newer) + line[at+2:]
}
