package rule

import "strings"

// Algorithm is how a limit counts. The zero value is DefaultAlgorithm.
type Algorithm uint8

// The algorithms. Their numbers are valid in this process only; saved and sent data contains the index in Algorithms
// instead.
const (
	DefaultAlgorithm Algorithm = iota // not named: a hard cap at every quota, kept as a log or in parts
	SlidingLog                        // keeps the time of every unit: exact
	FixedWindow                       // one counter that restarts; up to twice the quota around an edge, by design
	TokenBucket                       // a bucket that refills continuously, for traffic that may burst
	SlidingWindow                     // a counter over the window's parts, of which the oldest is weighted
	InFlight                          // slots that are held and released: at most Quota at a time
)

// Algorithms lists the algorithms that a limit can name.
var Algorithms = []Algorithm{SlidingWindow, SlidingLog, FixedWindow, TokenBucket, InFlight}

// traits is what is particular about an algorithm.
type traits struct {
	name         string
	segments     bool   // the window can be divided into parts
	overlap      bool   // the oldest part can be weighted
	anchor       bool   // windows can start with a key's first request
	burst        bool   // it has a capacity apart from the quota
	countRefused bool   // a refused request can use quota
	stores       string // what it stores one by one, so that the quota is at most MaxLogQuota
	instead      string // what to use for a larger quota
	notLeased    string // why units cannot be spent later than they were charged
}

var algorithms = [...]traits{
	DefaultAlgorithm: {name: "default", countRefused: true},
	SlidingLog: {
		name: "sliding-log", countRefused: true, stores: "a sliding-log stores every unit",
		instead:   "; sliding-window with overlap whole gives the same hard cap in constant memory",
		notLeased: "a sliding-log limit cannot be leased, because it counts every unit from the time of its charge",
	},
	FixedWindow:   {name: "fixed-window", anchor: true, countRefused: true},
	TokenBucket:   {name: "token-bucket", burst: true, countRefused: true},
	SlidingWindow: {name: "sliding-window", segments: true, overlap: true, anchor: true, countRefused: true},
	InFlight: {
		name: "in-flight", stores: "an in-flight limit stores every slot",
		notLeased: "an in-flight limit cannot be leased, because a slot is held from the time of its charge",
	},
}

// only returns the names of the algorithms that have an option.
func only(has func(*traits) bool) string {
	var names []string
	for _, a := range Algorithms {
		if has(&algorithms[a]) {
			names = append(names, algorithms[a].name)
		}
	}
	return strings.Join(names, " and ") + " only"
}
