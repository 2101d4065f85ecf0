// Package generate makes synthetic traffic, for users without an access log and for tests: any number of requests, in
// order of time, without holding them in memory. The same options give the same requests.
package generate

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/internal/options"
	"github.com/slidegate/slidegate/rule"
)

// Shapes lists the kinds of traffic, the default first.
var Shapes = []struct{ Name, About string }{
	{"mixed", "an API: users as in zipf, a scraper, a botnet, and keys that burst at full minutes"},
	{"zipf", "users, a few of which make most of the requests"},
	{"steady", "users that come at random times, all with the same rate"},
}

// ShapeNames returns the names of Shapes.
func ShapeNames() (names []string) {
	for _, shape := range Shapes {
		names = append(names, shape.Name)
	}
	return names
}

// Options describes traffic. Every zero field has the default documented with it.
type Options struct {
	// Shape is the name of one of Shapes; "mixed" by default.
	Shape string
	// Seed selects one of many similar traffics; 1 by default.
	Seed uint64
	// Requests is the exact number of requests; 100,000 by default.
	Requests int64
	// Keys is the number of users; 1,000 by default. The keys of the scraper, the bots and the edge bursters come in
	// addition.
	Keys int
	// Span is the duration of the traffic, which begins on Monday 2026-01-05 at 00:00:00 UTC; one hour by default.
	Span time.Duration
}

// The maximum values: the addresses of a log bound the keys, and the range of the rule bounds the time.
const (
	maxRequests = 100_000_000_000
	maxKeys     = 1_000_000_000
	minSpan     = time.Second
	maxSpan     = 10 * 366 * 24 * time.Hour
)

func (o Options) check() error {
	switch {
	case !slices.Contains(ShapeNames(), o.Shape):
		return invalid("Shape", "must be one of %s, not %q", strings.Join(ShapeNames(), ", "), o.Shape)
	case o.Requests < 1 || o.Requests > maxRequests:
		return invalid("Requests", "must be 1 to %d, or 0 for the default, not %d", int64(maxRequests), o.Requests)
	case o.Keys < 1 || o.Keys > maxKeys:
		return invalid("Keys", "must be 1 to %d, or 0 for the default, not %d", maxKeys, o.Keys)
	case o.Span < minSpan || o.Span > maxSpan:
		return invalid("Span", "must be %v to %v, or 0 for the default, not %v", minSpan, maxSpan, o.Span)
	}
	return nil
}

func invalid(option, format string, args ...any) error {
	return &options.Error{Package: "generate", Option: option, Err: fmt.Errorf(format, args...)}
}

// Traffic is synthetic traffic that can be read once, from its beginning to io.EOF. The zero value has no requests;
// call New. It is not safe for concurrent use.
type Traffic struct {
	seed        uint64
	populations []*population
	last        *population // of the last request
	number      int64       // the number of its key, from 1
	key, time   []byte
}

// population is one kind of key, with an exact number of requests.
type population struct {
	kind           kind
	random         *rand.Rand
	made, requests int64
	moment         func(share float64) rule.Micros // when this share of its requests has been made
	pick           func() int64                    // the number of the next request's key, from 1
	at             rule.Micros                     // the time of its next request
}

// start is the time at which all traffic begins.
var start = rule.Micros(time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC).UnixMicro())

// New returns the traffic that the options describe, or an error that names the option and the fix.
func New(o Options) (*Traffic, error) {
	o.Shape, o.Seed, o.Span = cmp.Or(o.Shape, Shapes[0].Name), cmp.Or(o.Seed, 1), cmp.Or(o.Span, time.Hour)
	o.Requests, o.Keys = cmp.Or(o.Requests, 100_000), cmp.Or(o.Keys, 1_000)
	if err := o.check(); err != nil {
		return nil, err
	}
	t := &Traffic{seed: o.Seed}
	span := rule.Micros(o.Span.Microseconds())
	users := o.Requests
	if o.Shape == "mixed" {
		users -= t.addScraper(o.Requests*15/100, span)
		users -= t.addBots(o.Requests*10/100, span)
		users -= t.addEdges(o.Requests*5/100, int64(o.Keys), span)
	}
	p := t.add(user, users, between(0, span))
	p.pick = func() int64 { return 1 + p.random.Int64N(int64(o.Keys)) }
	if o.Shape != "steady" {
		zipf := rand.NewZipf(p.random, 1.125, 1, uint64(o.Keys-1))
		p.pick = func() int64 { return 1 + int64(zipf.Uint64()) }
	}
	return t, nil
}

// add adds a population of one key; the caller may set another pick.
func (t *Traffic) add(k kind, requests int64, moment func(float64) rule.Micros) *population {
	p := &population{kind: k, requests: requests, moment: moment, random: rand.New(rand.NewPCG(t.seed, uint64(k)))}
	p.pick = func() int64 { return 1 }
	t.populations = append(t.populations, p)
	p.advance()
	return p
}

// between returns the moments of a constant rate.
func between(from, to rule.Micros) func(float64) rule.Micros {
	return func(share float64) rule.Micros { return from + min(rule.Micros(share*float64(to-from)), to-from-1) }
}

// during splits a share of all requests into the number of one of n equal parts and the share of that part.
func during(share float64, n int64) (part int64, rest float64) {
	scaled := share * float64(n)
	part = min(int64(scaled), n-1)
	return part, min(1, scaled-float64(part))
}

// addScraper adds one key that is active once in each third of the span, for a quarter of the third.
func (t *Traffic) addScraper(requests int64, span rule.Micros) int64 {
	third := span / 3
	t.add(scraper, requests, func(share float64) rule.Micros {
		raid, rest := during(share, 3)
		from := third*rule.Micros(raid) + third*rule.Micros(1+raid)/5
		return between(from, from+third/4)(rest)
	})
	return requests
}

// addBots adds keys that take turns, each with about five requests: none ever comes near a sensible limit. They begin
// after a fifth of the span and stop a tenth before its end.
func (t *Traffic) addBots(requests int64, span rule.Micros) int64 {
	p := t.add(bot, requests, between(span/5, span-span/10))
	bots, turn := max(1, requests/5), int64(0)
	p.pick = func() int64 {
		turn++
		return 1 + turn%bots
	}
	return requests
}

// addEdges adds keys that burst from just before to just after full minutes, which doubles a fixed window. A few full
// bursts have an effect that many thin ones do not, so every burst has about 120 requests. A span without a full
// minute has none.
func (t *Traffic) addEdges(requests, users int64, span rule.Micros) int64 {
	const minute, reach = rule.Micros(60e6), rule.Micros(60e6 / 25)
	minutes := int64((span - 1) / minute)
	if minutes == 0 {
		return 0
	}
	bursts := max(1, requests/120)
	used := min(minutes, bursts) // the full minutes with bursts, evenly spread
	group := bursts / used       // the keys that burst together
	keys := max(min(users, 20), 4*group)
	var burst int64
	p := t.add(edge, requests, func(share float64) rule.Micros {
		part, rest := during(share, used)
		burst = part
		boundary := minute * rule.Micros(1+(2*part+1)*minutes/(2*used))
		return between(boundary-reach, min(boundary+reach, span))(rest)
	})
	// A key that bursts at a full minute is quiet at the next one, so that no fixed window has two bursts. The moment of
	// the next request is known before its key is picked.
	p.pick = func() int64 { return 1 + (burst*group+p.random.Int64N(group))%keys }
	return requests
}

// advance moves to the next request: the n-th of all falls somewhere into the n-th of as many equal parts, so they are
// in order.
func (p *population) advance() {
	share := (float64(p.made) + p.random.Float64()) / float64(max(1, p.requests))
	p.at = start + p.moment(min(share, 1))
	p.made++
}

// Next fills line with the next request. It returns io.EOF after the last one, and no other error.
func (t *Traffic) Next(line *traffic.Line) error {
	t.last = nil
	for _, p := range t.populations {
		if p.made <= p.requests && (t.last == nil || p.at < t.last.at) {
			t.last = p
		}
	}
	if t.last == nil {
		return io.EOF
	}
	at := t.last.at
	t.number = t.last.pick()
	t.key = fmt.Appendf(t.key[:0], "%s-%04d", t.last.kind, t.number)
	t.time = strconv.AppendFloat(t.time[:0], float64(at)/1000, 'f', -1, 64)
	*line = traffic.Line{At: at, Key: t.key, Cost: 1, Time: t.time}
	t.last.advance()
	return nil
}
