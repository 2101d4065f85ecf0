package generate

import (
	"math"
	"math/rand/v2"

	"github.com/slidegate/slidegate/rule"
)

// population is one kind of key, with an exact number of requests.
type population struct {
	kind     kind
	width    int // the number of digits in its keys
	rng      *rand.PCG
	arrivals arrivals
	stretch  stretch
	pick     picker
	at       rule.Micros // the time of its next request, or the constant never after the last one
}

// never is later than any request.
const never = rule.Micros(math.MaxInt64)

// picker picks the key of a request, as a number from 1. The argument during is the index of the curve's piece that
// contains the request.
type picker interface {
	key(rng *rand.PCG, during int64) int64
}

// advance moves to the next request.
func (p *population) advance() {
	moment, ok := p.arrivals.moment()
	if !ok {
		p.at = never
		return
	}
	p.at = p.stretch.at(moment)
}

// uniform picks all keys with the same probability; its value is the number of keys.
type uniform int64

func (n uniform) key(rng *rand.PCG, _ int64) int64 { return scale(rng.Uint64(), int64(n)) + 1 }

// byRank picks keys by Zipf's law, number 1 most often.
type byRank struct{ zipf }

func (z *byRank) key(rng *rand.PCG, _ int64) int64 { return z.pick(rng) }

// inTurn picks every key once before any key again, in an order that looks random: its step is coprime to the number of
// keys.
type inTurn struct{ keys, step, position int64 }

func newInTurn(rng *rand.PCG, keys int64) *inTurn {
	t := &inTurn{keys: keys, position: scale(rng.Uint64(), keys), step: 1 + scale(rng.Uint64(), keys)}
	for gcd(t.step, keys) != 1 {
		t.step++
	}
	return t
}

func (t *inTurn) key(*rand.PCG, int64) int64 {
	t.position = (t.position + t.step) % t.keys
	return t.position + 1
}

// gcd returns the greatest common divisor of a and b.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// atEdges picks from the group of keys that burst at a boundary.
type atEdges struct{ edgePlan }

func (p *atEdges) key(rng *rand.PCG, during int64) int64 { return p.edgePlan.key(rng.Uint64(), during) }
