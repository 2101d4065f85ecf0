// Package generate makes logs of synthetic traffic, for tests, pictures and pages of the documentation: any number of requests, in order of
// time, without holding them in memory. The same options give the same log.
package generate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Shapes are the kinds of traffic, the default first:
//   - mixed is an API: users as in zipf, a scraper, a botnet, and keys that burst at full minutes
//   - zipf has users, a few of which make most of the requests
//   - steady has users that come at random times, all with the same rate
var Shapes = []string{"mixed", "zipf", "steady"}

// Options describes traffic. Every zero field has the default documented with it.
type Options struct {
	// Shape is one of Shapes; "mixed" by default.
	Shape string
	// Seed selects one of many similar traffics; 1 by default.
	Seed uint64
	// Requests is the exact number of requests; 100,000 by default.
	Requests int64
	// Keys is the number of users; 1,000 by default. The keys of the scraper, the bots and the edge bursters come in
	// addition.
	Keys int
	// Span is the duration of the traffic, which begins on Monday 2026-01-05 at 00:00:00 UTC; one hour by default, and at
	// least a second.
	Span time.Duration
}

// micros are microseconds.
type micros = int64

// synthetic is traffic that can be read once, from its beginning.
type synthetic struct {
	seed        uint64
	populations []*population
}

// request is one request: which key of which kind sends it, from 1, and when, since the epoch.
type request struct {
	kind   kind
	number int64
	at     micros
}

// population is one kind of key, with an exact number of requests.
type population struct {
	kind           kind
	random         *rand.Rand
	made, requests int64
	moment         func(share float64) micros // when this share of its requests has been made
	pick           func() int64               // the number of the next request's key, from 1
	at             micros                     // the time of its next request
}

// start is the time at which all traffic begins.
var start = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC).UnixMicro()

// traffic returns the traffic that the options describe.
func (o Options) traffic() (*synthetic, error) {
	o.Shape, o.Seed, o.Span = cmp.Or(o.Shape, Shapes[0]), cmp.Or(o.Seed, 1), cmp.Or(o.Span, time.Hour)
	o.Requests, o.Keys = cmp.Or(o.Requests, 100_000), cmp.Or(o.Keys, 1_000)
	if !slices.Contains(Shapes, o.Shape) || o.Requests < 1 || o.Keys < 1 || o.Span < time.Second {
		return nil, fmt.Errorf("generate: invalid options: %+v; want a shape of %v, and positive numbers", o, Shapes)
	}
	t := &synthetic{seed: o.Seed}
	span := o.Span.Microseconds()
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
func (t *synthetic) add(k kind, requests int64, moment func(float64) micros) *population {
	p := &population{kind: k, requests: requests, moment: moment, random: rand.New(rand.NewPCG(t.seed, uint64(k)))}
	p.pick = func() int64 { return 1 }
	t.populations = append(t.populations, p)
	p.advance()
	return p
}

// between returns the moments of a constant rate.
func between(from, to micros) func(float64) micros {
	return func(share float64) micros { return from + min(micros(share*float64(to-from)), to-from-1) }
}

// during splits a share of all requests into the number of one of n equal parts and the share of that part.
func during(share float64, n int64) (part int64, rest float64) {
	scaled := share * float64(n)
	part = min(int64(scaled), n-1)
	return part, min(1, scaled-float64(part))
}

// addScraper adds one key that is active once in each third of the span, for a quarter of the third.
func (t *synthetic) addScraper(requests int64, span micros) int64 {
	third := span / 3
	t.add(scraper, requests, func(share float64) micros {
		raid, rest := during(share, 3)
		from := third*raid + third*(1+raid)/5
		return between(from, from+third/4)(rest)
	})
	return requests
}

// addBots adds keys that take turns, each with about five requests: none ever comes near a sensible limit. They begin
// after a fifth of the span and stop a tenth before its end.
func (t *synthetic) addBots(requests int64, span micros) int64 {
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
func (t *synthetic) addEdges(requests, users int64, span micros) int64 {
	const minute, reach = micros(60e6), micros(60e6 / 25)
	minutes := (span - 1) / minute
	if minutes == 0 {
		return 0
	}
	bursts := max(1, requests/120)
	used := min(minutes, bursts) // the full minutes with bursts, evenly spread
	group := bursts / used       // the keys that burst together
	keys := max(min(users, 20), 4*group)
	var burst int64
	p := t.add(edge, requests, func(share float64) micros {
		part, rest := during(share, used)
		burst = part
		boundary := minute * (1 + (2*part+1)*minutes/(2*used))
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

// next returns the next request, or false after the last one.
func (t *synthetic) next() (q request, ok bool) {
	var first *population
	for _, p := range t.populations {
		if p.made <= p.requests && (first == nil || p.at < first.at) {
			first = p
		}
	}
	if first == nil {
		return q, false
	}
	q = request{first.kind, first.pick(), first.at}
	first.advance()
	return q, true
}
