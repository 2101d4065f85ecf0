package generate

import (
	"math"
	"math/rand/v2"

	"github.com/slidegate/slidegate/rule"
)

// population is one kind of keys, with its exact number of requests.
type population struct {
	kind     kind
	width    int // digits of its keys
	rng      *rand.PCG
	arrivals arrivals
	stretch  stretch
	pick     picker
	at       rule.Micros // when its next request comes; never after the last one
}

// never is later than any request.
const never = rule.Micros(math.MaxInt64)

// picker picks the key of a request, a number from 1; during is the number of the curve's piece that it falls into.
type picker interface {
	key(rng *rand.PCG, during int64) int64
}

// advance moves on to the next request.
func (p *population) advance() {
	moment, ok := p.arrivals.moment()
	if !ok {
		p.at = never
		return
	}
	p.at = p.stretch.at(moment)
}

// equally picks all keys equally often; it is how many there are.
type equally int64

func (n equally) key(rng *rand.PCG, _ int64) int64 { return scale(rng.Uint64(), int64(n)) + 1 }

// byRank picks keys by Zipf's law, the one with the number 1 most often.
type byRank struct{ zipf }

func (z *byRank) key(rng *rand.PCG, _ int64) int64 { return z.pick(rng) }

// inTurn lets all keys have their turn before any has its next, in an order that looks random: it goes round by steps that
// have no divisor in common with the number of keys.
type inTurn struct{ keys, step, place int64 }

func newInTurn(rng *rand.PCG, keys int64) *inTurn {
	t := &inTurn{keys: keys, place: scale(rng.Uint64(), keys), step: 1 + scale(rng.Uint64(), keys)}
	for divisor(t.step, keys) != 1 {
		t.step++
	}
	return t
}

func (t *inTurn) key(*rand.PCG, int64) int64 {
	t.place = (t.place + t.step) % t.keys
	return t.place + 1
}

// divisor returns the greatest one that both have in common.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// atEdges picks from the group of keys that burst at a boundary.
type atEdges struct{ edgePlan }

func (p *atEdges) key(rng *rand.PCG, during int64) int64 { return p.edgePlan.key(rng.Uint64(), during) }
