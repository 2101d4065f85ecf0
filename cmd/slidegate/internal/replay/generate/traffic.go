package generate

import (
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// Traffic is synthetic traffic that can be read once, from its beginning to io.EOF. Its times never decrease, and it
// holds no requests in memory. The zero value has no requests; call New. It is not safe for concurrent use.
type Traffic struct {
	options     Options
	populations []population
	costs       *rand.PCG
	last        keyID  // the key of the last request
	key         []byte // the same as text
	time        []byte // the time of the last request, as text
}

var _ traffic.Lines = (*Traffic)(nil)

// New returns the traffic that the options describe, or an error that names the option and the fix.
func New(o Options) (*Traffic, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	t := &Traffic{options: o, costs: random(o.Seed, forCosts)}
	t.populate(o)
	for i := range t.populations {
		t.populations[i].advance()
	}
	return t, nil
}

// Options returns the options, with the defaults filled in.
func (t *Traffic) Options() Options { return t.options }

// Next fills line with the next request, whose time is in milliseconds, with a fraction if it needs one. It returns io.EOF
// after the last one, and no other error.
func (t *Traffic) Next(line *traffic.Line) error {
	p := t.earliest()
	if p == nil {
		return io.EOF
	}
	t.last = keyID{p.kind, p.pick.key(p.rng, p.stretch.number)}
	t.key = t.last.appendKey(t.key[:0], p.width)
	t.time = appendMillis(t.time[:0], p.at)
	*line = traffic.Line{At: p.at, Key: t.key, Cost: t.cost(), Time: t.time}
	p.advance()
	return nil
}

// earliest returns the population whose next request comes first, or nil if there is none.
func (t *Traffic) earliest() *population {
	var first *population
	at := never
	for i := range t.populations {
		if p := &t.populations[i]; p.at < at {
			first, at = p, p.at
		}
	}
	return first
}

// cost draws a cost. The product of three random fractions is usually small.
func (t *Traffic) cost() int64 {
	most := t.options.MaxCost
	if most == 1 {
		return 1
	}
	for range 3 {
		most = 1 + scale(t.costs.Uint64(), most)
	}
	return most
}

// appendMillis appends a time in milliseconds, with a fraction only if it needs one.
func appendMillis(b []byte, at rule.Micros) []byte {
	b = strconv.AppendInt(b, int64(at)/1_000, 10)
	if rest := at % 1_000; rest != 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return b
}
