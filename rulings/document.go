package rulings

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slidegate/slidegate/store"
)

// document is what the store keeps: all rulings and the log of changes, as compressed JSON. Documents are not modified once they are
// made, except by their maker.
type document struct {
	Format   int      `json:"format"`
	Revision int64    `json:"revision"` // goes up with every change
	Rulings  []Ruling `json:"rulings"`
	Log      []Ruling `json:"log"` // oldest first
}

const (
	documentName = "rulings"
	format       = 1
	maxLog       = 1000      // changes in the log
	maxLogBytes  = 256 << 10 // of the fields of its changes
	maxTextBytes = 8 << 20   // of the text before compression
)

// ErrFull is wrapped by the error of a change for which there is no space: compressed, all rulings and the log take at most
// store.MaxDocument bytes.
var ErrFull = fmt.Errorf("there is no space for more rulings, which take up to %d KiB together; end some of them, or use lists and overrides of the policy", store.MaxDocument>>10)

// encode returns the bytes of a document. It drops the oldest changes of a log that is too long.
func (d *document) encode() ([]byte, error) {
	size := 0
	for i := len(d.Log) - 1; i >= 0; i-- {
		r := &d.Log[i]
		size += 200 + len(r.Policy) + len(r.Key) + len(r.Who) + len(r.Why)
		for _, limit := range r.Limits {
			size += len(limit)
		}
		if size > maxLogBytes || len(d.Log)-i > maxLog {
			d.Log = d.Log[i+1:]
			break
		}
	}
	d.Format = format
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("rulings: %w", err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("rulings: %w", err)
	}
	if len(text) > maxTextBytes || b.Len() > store.MaxDocument {
		return nil, fmt.Errorf("rulings: %w", ErrFull)
	}
	return b.Bytes(), nil
}

// decode reads what encode has returned.
func decode(from []byte) (*document, error) {
	d := &document{}
	r, err := gzip.NewReader(bytes.NewReader(from))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxTextBytes+1)).Decode(d)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the store's document %q is damaged: %w", documentName, err)
	case d.Format != format:
		return nil, fmt.Errorf("the store's document %q has the format %d, but this program reads %d; upgrade this program", documentName, d.Format, format)
	}
	return d, nil
}

// find returns the ruling about a key that was in force at a time, or nil.
func (d *document) find(policy, key string, now time.Time) *Ruling {
	for i := range d.Rulings {
		if r := &d.Rulings[i]; r.Key == key && r.Policy == policy && r.inForce(now) {
			return r
		}
	}
	return nil
}

// with returns a copy of the document with a change made to it, and without the rulings that had ended at the given time.
func (d *document) with(change Ruling, ended time.Time) *document {
	next := &document{Revision: d.Revision + 1, Log: append(slices.Clone(d.Log), change)}
	for i := range d.Rulings {
		r := &d.Rulings[i]
		replaced := change.Kind != Reset && r.Policy == change.Policy && r.Key == change.Key
		if !replaced && r.inForce(ended) {
			next.Rulings = append(next.Rulings, *r)
		}
	}
	if change.Kind != Clear && change.Kind != Reset {
		next.Rulings = append(next.Rulings, change)
	}
	return next
}

// includes reports whether the document has the last change of an earlier one, and so all its changes.
func (d *document) includes(earlier *document) bool {
	if len(earlier.Log) == 0 {
		return true
	}
	last := &earlier.Log[len(earlier.Log)-1]
	if slices.ContainsFunc(d.Log, func(r Ruling) bool { return r.same(last) }) {
		return true
	}
	// A log that begins later cannot have it.
	return d.Revision > earlier.Revision && len(d.Log) > 0 && d.Log[0].At.After(last.At)
}

// merge returns a document with the changes of both, after a store has lost some of them: about each key, the latest counts.
func merge(a, b *document) *document {
	merged := &document{Revision: max(a.Revision, b.Revision) + 1, Log: slices.Concat(a.Log, b.Log)}
	slices.SortStableFunc(merged.Log, func(x, y Ruling) int {
		return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Key, y.Key), cmp.Compare(x.Kind, y.Kind))
	})
	merged.Log = slices.CompactFunc(merged.Log, func(x, y Ruling) bool { return x.same(&y) })
	type name struct{ policy, key string }
	latest := map[name]Ruling{}
	consider := func(r Ruling) {
		if known, ok := latest[name{r.Policy, r.Key}]; !ok || r.At.After(known.At) {
			latest[name{r.Policy, r.Key}] = r
		}
	}
	for _, r := range slices.Concat(a.Rulings, b.Rulings) {
		consider(r)
	}
	for _, r := range merged.Log {
		if r.Kind == Clear {
			consider(r)
		}
	}
	for _, r := range latest {
		if r.Kind != Clear {
			merged.Rulings = append(merged.Rulings, r)
		}
	}
	return merged
}
