package generate

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

// pinned are the beginnings of the SHA-256 of 20,000 lines, as JSON lines and as an access log. Users compare
// measurements on generated traffic, so a change of these must be announced.
var pinned = map[Shape][2]string{
	Mixed:   {"46c30e69c4ca7521", "063afb4fb0f3f557"},
	Steady:  {"6ca98bf141c74d8b", "2a5955ea8ce3ba43"},
	Diurnal: {"b8d4722272aeff01", "4d3569f245965dc0"},
	Zipf:    {"e2bdf380fa004a16", "bbe1b19642e5f612"},
	Edges:   {"875a9fe10ffb36d8", "f5b2386e04f546f2"},
	Scraper: {"9c6004a3cc0043d8", "5ebafa7a8762de03"},
	Botnet:  {"f7426f960a733d09", "5b2320e5f6d23cea"},
}

func TestTrafficIsTheSameEverywhere(t *testing.T) {
	for _, s := range Shapes() {
		o := Options{Shape: s, Requests: 20_000, Keys: 5_000, MaxCost: 100}
		got := [2]string{hash(written(t, WriteLines, o)), hash(written(t, WriteCombined, o))}
		if got != pinned[s] {
			t.Errorf("%v: the hashes are %q, want %q", s, got, pinned[s])
		}
	}
}

func hash(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16] }
