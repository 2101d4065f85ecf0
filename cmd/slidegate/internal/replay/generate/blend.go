package generate

import "math/rand/v2"

// purpose distinguishes the streams of random numbers of one seed.
type purpose uint64

const (
	forArrivals purpose = iota << 8 // the low bits are the kind
	forKeys
	forRaids
	forTurns
	forCosts
	forLogs
)

// random returns the random number generator of a seed for a purpose. Generators of this type are correlated at first if
// their seeds are similar, so seeds and purposes are mixed.
func random(seed uint64, p purpose) *rand.PCG {
	high := mix(seed)
	return rand.NewPCG(high, mix(high^uint64(p)))
}

// mix is the finalizer of SplitMix64: every bit of x affects half of the bits of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// shares are the percentages of the requests that each kind makes; users make the rest.
var shares = [shapes][kinds]int64{
	Mixed:   {scraper: 15, bot: 10, edge: 5},
	Edges:   {edge: 90},
	Scraper: {scraper: 40},
	Botnet:  {bot: 70},
}

// By default there is one bot per requestsPerBot requests of bots, up to a number that a replay can hold in memory.
const (
	requestsPerBot = 5
	maxBots        = 1_000_000
)

// populate creates the populations of the shape, users first, except those without requests.
func (t *Traffic) populate(o Options) {
	var requests [kinds]int64
	requests[user] = o.Requests
	for k := user + 1; k < kinds; k++ {
		requests[k] = o.Requests / 100 * shares[o.Shape][k]
		requests[k] += o.Requests % 100 * shares[o.Shape][k] / 100
		requests[user] -= requests[k]
	}
	t.addUsers(o, requests[user])
	t.addBots(o, requests[bot])
	t.addEdges(o, requests[edge])
	t.addScraper(o, requests[scraper])
}

func (t *Traffic) add(k kind, requests, keys int64, c curve, pick picker) {
	if requests == 0 {
		return
	}
	t.populations = append(t.populations, population{
		kind:     k,
		width:    widthOf(k, keys),
		rng:      random(t.options.Seed, forKeys+purpose(k)),
		arrivals: newArrivals(random(t.options.Seed, forArrivals+purpose(k)), requests),
		stretch:  newStretch(c),
		pick:     pick,
	})
}

func (t *Traffic) addUsers(o Options, requests int64) {
	from, to := o.interval()
	keys := int64(o.Keys)
	var c curve = flat(from, to)
	if o.Shape == Diurnal || o.Shape == Mixed {
		c = week{from, to}
	}
	var pick picker = uniform(keys)
	if o.Shape == Zipf || o.Shape == Mixed {
		pick = &byRank{newZipf(keys)}
	}
	t.add(user, requests, keys, c, pick)
}

func (t *Traffic) addBots(o Options, requests int64) {
	if requests == 0 {
		return
	}
	from, to := o.interval()
	bots := int64(o.Bots)
	if bots == 0 {
		bots = min(maxBots, max(1, requests/requestsPerBot))
		t.options.Bots = int(bots)
	}
	t.add(bot, requests, bots, attack(from, to), newInTurn(random(o.Seed, forTurns), bots))
}

func (t *Traffic) addEdges(o Options, requests int64) {
	if requests == 0 {
		return // the span need not contain a boundary
	}
	plan := planEdges(o, requests)
	t.add(edge, requests, plan.keys, plan, &atEdges{plan})
}

func (t *Traffic) addScraper(o Options, requests int64) {
	from, to := o.interval()
	t.add(scraper, requests, 1, raids(random(o.Seed, forRaids), from, to), uniform(1))
}
