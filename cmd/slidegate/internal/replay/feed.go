package replay

import (
	"context"
	"errors"
	"io"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// batchSize is the approximate number of requests in a batch.
const batchSize = 4096

// checkEvery is the number of requests that are read before the context is checked again.
const checkEvery = 32

// batch is a section of the traffic, in the order in which it is decided.
type batch struct {
	requests []request
	lines    []byte // the beginnings of the decisions' lines for the requests read since the last batch, in the order of the input
}

// feed reads the traffic, numbers its keys and sorts it, in a separate goroutine.
type feed struct {
	lines         traffic.Lines
	keys          []*keys // by group
	order         *order
	echo          bool // fill batch.lines
	full          chan *batch
	spare         chan *batch
	countedGroups int // the number of groups, from the first, whose keys are counted
	total         Traffic
	err           error // why reading stopped before the end of the traffic; valid once full is closed

	about []byte // the buffer of noteOf
}

func newFeed(lines traffic.Lines, own, groups int, distance rule.Micros, echo bool) *feed {
	const batches = 3 // one being filled, one waiting, one being decided
	f := &feed{lines: lines, countedGroups: own, keys: make([]*keys, groups), order: newOrder(distance), echo: echo,
		full: make(chan *batch, batches), spare: make(chan *batch, batches)}
	for i := range f.keys {
		f.keys[i] = newKeys()
	}
	for range batches {
		f.spare <- &batch{requests: make([]request, 0, batchSize)}
	}
	return f
}

// run reads until the traffic ends or ctx is done.
func (f *feed) run(ctx context.Context) {
	defer close(f.full)
	b := f.empty()
	var line traffic.Line
	for f.err == nil {
		err := f.lines.Next(&line)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.err = err
			}
			break
		}
		f.add(&line, b)
		if f.total.Requests%checkEvery == 0 {
			b = f.send(b, false)
			f.err = ctx.Err()
		}
	}
	f.send(b, true)
	f.total.Order = f.order.found
	for _, keys := range f.keys[:f.countedGroups] {
		f.total.Keys += int64(keys.len())
	}
}

// add adds a request.
func (f *feed) add(line *traffic.Line, b *batch) {
	if f.total.Requests == 0 {
		f.total.From, f.total.To = line.At, line.At
	}
	f.total.From, f.total.To = min(f.total.From, line.At), max(f.total.To, line.At)
	kept := noteOf(&line.About, &f.about)
	if line.Parts == nil {
		f.addPart(0, line.Key, request{at: line.At, cost: line.Cost, seq: f.total.Requests, note: kept})
	}
	for i := range line.Parts {
		part := &line.Parts[i]
		more := i+1 < len(line.Parts)
		f.addPart(part.Group, part.Key, request{at: line.At, cost: part.Cost, seq: f.total.Requests, more: more, note: kept})
	}
	f.total.Requests++
	f.total.Units += line.Cost
	if f.echo {
		b.lines = appendRequest(b.lines, line)
	}
}

// addPart adds a request, or a part of one, whose key belongs to a group.
func (f *feed) addPart(group int, key []byte, q request) {
	q.group, q.key = uint32(group), f.keys[group].number(key)
	f.order.add(q)
}

// send sends the requests that are ready, one batch at a time, and returns the batch to fill next. The last batch is
// sent even if it has no requests: it may have beginnings of decisions' lines.
func (f *feed) send(b *batch, all bool) *batch {
	if !all && !f.order.full() && len(b.lines) < 1<<20 {
		return b
	}
	f.order.release(all, func(requests []request) {
		b.requests = append(b.requests, requests...)
		f.full <- b
		b = f.empty()
	})
	if len(b.lines) > 0 {
		f.full <- b
		b = f.empty()
	}
	return b
}

// empty waits for a batch to fill, and returns it.
func (f *feed) empty() *batch {
	b := <-f.spare
	b.requests, b.lines = b.requests[:0], b.lines[:0]
	return b
}

// recycle returns a batch for reuse.
func (f *feed) recycle(b *batch) { f.spare <- b }
