// Package reporttest has documents for the tests of the report, and for those that look at its page in a browser: a day of
// traffic that was made up, and one whose texts are hostile.
package reporttest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// The sample is a day of an API with about 150 clients: most are quiet, two have bursts, one polls too often all day
// and one scrapes for an hour. It is made by a small simulation, slow and obvious, so that its counts agree with each
// other.

const (
	sampleDay    = rule.Micros(1794614400000000) // 2026-11-14 00:00:00 UTC
	sampleBucket = rule.Micros(5 * 60e6)
	second       = rule.Micros(1e6)
)

type arrival struct {
	at  rule.Micros
	key string
}

// arrivals makes the sample's traffic.
func arrivals() []arrival {
	r := rand.New(rand.NewPCG(7, 11))
	var all []arrival
	stream := func(key string, from, to rule.Micros, perMinute float64, daily bool) {
		for at := from; ; {
			rate := perMinute
			if daily { // busiest in the afternoon, almost silent at night
				rate *= 0.08 + 0.92*math.Pow(math.Sin(math.Pi*float64(at)/(24*3600e6)), 2)
			}
			at += rule.Micros(r.ExpFloat64() * 60e6 / rate)
			if at >= to {
				return
			}
			all = append(all, arrival{sampleDay + at, key})
		}
	}
	const hour = 3600 * second
	for i := range 144 {
		user := fmt.Sprintf("user-%d", 100+i)
		stream(user, 0, 24*hour, 0.05+0.8*r.Float64(), true)
		if i%3 == 0 { // one in three has a busy quarter of an hour, one busier than the other
			from := rule.Micros(7+i/12) * hour
			stream(user, from, from+15*60*second, 6*math.Pow(1.022, float64(i)), false)
		}
	}
	stream("tenant-acme", 0, 24*hour, 14, true)
	stream("tenant-acme", 9*hour, 9*hour+20*60*second, 150, false)
	stream("mobile-app/4.2.1", 0, 24*hour, 22, true)
	stream("mobile-app/4.2.1", 17*hour, 17*hour+6*60*second, 170, false)
	stream("203.0.113.77", 13*hour+600*second, 14*hour+900*second, 260, false)
	for minute := rule.Micros(0); minute < 24*60; minute += 10 { // a job that starts just before a full minute
		stream("batch-export@warehouse.example", minute*60*second+54*second, minute*60*second+64*second, 1050, false)
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return all
}

// recent counts the units of one key that lie within a window.
type recent struct{ times []rule.Micros }

func (c *recent) at(now, window rule.Micros) int64 {
	for len(c.times) > 0 && c.times[0] <= now-window {
		c.times = c.times[1:]
	}
	return int64(len(c.times))
}

// client is what the simulation knows of one key.
type client struct {
	state       rule.State
	admitted    recent
	out         replay.KeyOutcome
	lockedSince rule.Micros
}

// simulation runs the arrivals through one limit.
type simulation struct {
	limit   rule.Limit
	clients map[string]*client
	outcome replay.Outcome
	verdict []bool // by arrival
}

func simulate(name, text string, all []arrival) *simulation {
	parsed := slidegate.MustParseLimit(text)
	limit, err := rule.Limit{
		Algorithm: parsed.Algorithm, Overlap: parsed.Overlap, Segments: parsed.Segments, Quota: parsed.Quota,
		Burst: parsed.Burst, Window: rule.Micros(parsed.Window.Microseconds()),
	}.Normalize()
	if err != nil {
		panic(err)
	}
	s := &simulation{limit: limit, clients: map[string]*client{}}
	s.outcome = replay.Outcome{Name: name, Limits: []replay.LimitOutcome{{Limit: text, Quota: limit.Quota, Window: limit.Window}}}
	for i, a := range all {
		s.decide(a)
		if i%500 == 0 {
			s.weigh(a.at)
		}
	}
	s.finish()
	return s
}

func (s *simulation) decide(a arrival) {
	c := s.clients[a.key]
	if c == nil {
		c = &client{state: rule.State{Start: math.MinInt64}, out: replay.KeyOutcome{Key: a.key}}
		c.state.Clear()
		s.clients[a.key] = c
	}
	l := &s.outcome.Limits[0]
	exact := c.admitted.at(a.at, l.Window)+1 <= l.Quota
	next, answer := s.limit.Decide(c.state, a.at, 1)
	c.state = next
	c.out.Requests++
	s.verdict = append(s.verdict, answer.Allowed)
	if answer.Allowed {
		s.outcome.Admitted++
		if !exact {
			l.WrongAdmitted++
		}
		c.admitted.times = append(c.admitted.times, a.at)
		if held := c.admitted.at(a.at, l.Window); held > l.Highest.Units {
			l.Highest = replay.Highest{Units: held, Key: a.key, At: a.at}
		}
		s.lockout(c, a.at, true)
		return
	}
	s.outcome.Denied++
	l.Denied++
	c.out.Denied++
	if exact {
		l.WrongDenied++
	}
	s.lockout(c, a.at, false)
}

func (s *simulation) lockout(c *client, now rule.Micros, ended bool) {
	if c.lockedSince == 0 {
		if ended {
			return
		}
		c.lockedSince = now
	}
	length := now - c.lockedSince
	c.out.Lockout = max(c.out.Lockout, length)
	if length > s.outcome.Lockout.Length || length == s.outcome.Lockout.Length && ended {
		s.outcome.Lockout = replay.Lockout{Key: c.out.Key, From: c.lockedSince, Length: length, Ended: ended}
	}
	if ended {
		c.lockedSince = 0
	}
}

// weigh takes down how many keys matter now and how large their states are.
func (s *simulation) weigh(now rule.Micros) {
	l := &s.outcome.Limits[0]
	var live, bytes int64
	for _, c := range s.clients {
		if s.limit.Expires(&c.state) <= now {
			continue
		}
		live++
		if s.limit.Algorithm == rule.SlidingLog {
			bytes += 16 + 8*c.admitted.at(now, l.Window)
		} else {
			bytes += 8 + 8*int64(max(1, s.limit.Parts()))
		}
	}
	l.LiveKeys, l.StateBytes = max(l.LiveKeys, live), max(l.StateBytes, bytes)
}

func (s *simulation) finish() {
	s.outcome.UnitsAdmitted, s.outcome.UnitsDenied = s.outcome.Admitted, s.outcome.Denied
	for _, c := range s.clients {
		if c.out.Denied > 0 {
			s.outcome.KeysTouched++
			s.outcome.TopDenied = append(s.outcome.TopDenied, c.out)
		}
	}
	slices.SortFunc(s.outcome.TopDenied, func(a, b replay.KeyOutcome) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key))
	})
	s.outcome.TopDenied = s.outcome.TopDenied[:min(10, len(s.outcome.TopDenied))]
}

// timeline counts the arrivals by bucket.
func (s *simulation) timeline(all []arrival) replay.Timeline {
	t := replay.Timeline{From: sampleDay, Width: sampleBucket, Buckets: make([]replay.Bucket, 24*3600*second/sampleBucket)}
	for i, a := range all {
		b := &t.Buckets[(a.at-sampleDay)/sampleBucket]
		if s.verdict[i] {
			b.Admitted++
		} else {
			b.Denied++
		}
	}
	return t
}

// trail follows one key.
func (s *simulation) trail(all []arrival, k replay.KeyOutcome) replay.Trail {
	n := 24 * 3600 * second / sampleBucket
	t := replay.Trail{Key: k.Key, Requests: k.Requests, Denied: k.Denied, Asked: make([]int64, n), Admitted: make([]int64, n)}
	var asked, admitted recent
	for i, a := range all {
		if a.key != k.Key {
			continue
		}
		asked.times = append(asked.times, a.at)
		if s.verdict[i] {
			admitted.times = append(admitted.times, a.at)
		}
		b := (a.at - sampleDay) / sampleBucket
		t.Asked[b] = max(t.Asked[b], asked.at(a.at, s.limit.Window))
		t.Admitted[b] = max(t.Admitted[b], admitted.at(a.at, s.limit.Window))
	}
	return t
}

// sampleQuotas are the quotas of the sweep.
var sampleQuotas = []int64{10, 15, 20, 30, 40, 50, 70, 100, 120, 150, 200, 250, 300, 350, 400}

// Document has the fields of a report.Document, so that one converts to the other. It is not that type because the tests in
// that package could not import this one then.
type Document struct {
	Title         string
	Command       string
	Per           string
	After, Before string
	Findings      *replay.Findings
	Sources       []traffic.Source
	Suggested     string
	Notes         []string
}

// Sample returns a new document every time, so that a test may change it; the simulation runs once.
func Sample() Document {
	f := *sampleFindings()
	return Document{
		Title:   "api-gateway, 14 November 2026",
		Command: "slidegate replay --limit 100/1m --compare --sweep --suggest 2 access.log access.log.1.gz",
		Sources: []traffic.Source{
			{Name: "access.log.1.gz", Format: "combined log", Packing: "gzip", Lines: 31030, Requests: 30510, Filtered: 517, Unreadable: 3,
				Examples: []traffic.BadLine{
					{Number: 8121, Text: "203.0.113.9 - - [14/Nov/2026:04:", Why: "the line ends in the middle of its time"},
					{Number: 8122, Text: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", Why: "not a line of a combined log: no [time] in brackets"},
					{Number: 20467, Text: `198.51.100.23 - - [31/Feb/2026:09:00:01 +0000] "GET / HTTP/1.1" 200 12`, Why: "time: day out of range"},
				}},
			{Name: "access.log", Format: "combined log", Lines: f.Traffic.Requests - 30510 + 640, Requests: f.Traffic.Requests - 30510,
				Filtered: 640, KeyMissing: 12},
		},
		Suggested: "policies:\n  suggested:\n    key: \"{address}\"\n    cost: 1\n    limits:\n      - 250/1m sliding-window\n",
		Findings:  &f,
	}
}

var sampleFindings = sync.OnceValue(func() *replay.Findings {
	all := arrivals()
	asked := simulate("sliding-window", "100/1m", all)
	f := &replay.Findings{Outcome: asked.outcome, Timeline: asked.timeline(all)}
	f.Traffic = replay.Traffic{
		Requests: int64(len(all)), Units: int64(len(all)), Keys: int64(len(asked.clients)), From: all[0].at, To: all[len(all)-1].at,
		Order: replay.Order{OutOfOrder: 2318, Furthest: 4*second + 210000, TooLate: 0},
	}
	for _, k := range asked.outcome.TopDenied[:min(5, len(asked.outcome.TopDenied))] {
		f.Worst = append(f.Worst, asked.trail(all, k))
	}
	for _, choice := range []string{"sliding-window", "sliding-window segments=6", "sliding-window overlap=whole", "sliding-log", "fixed-window", "token-bucket"} {
		f.Compare = append(f.Compare, simulate(choice, "100/1m "+choice, all).outcome)
	}
	f.Denied = &replay.Profile{
		Requests: f.Outcome.Denied,
		Paths:    values(f.Outcome.Denied, "/api/v1/search", 61, "/api/v1/items/4711", 17, "/login", 9, "/api/v1/export/2026-11-14/all-of-it-in-one-file.csv", 4),
		Agents:   values(f.Outcome.Denied, "python-requests/2.32.3", 58, "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36", 22, "", 6),
		Statuses: values(f.Outcome.Denied, "200", 88, "401", 9),
		Methods:  values(f.Outcome.Denied, "GET", 91, "POST", 9),
	}
	for i := range f.Outcome.TopDenied {
		k := &f.Outcome.TopDenied[i]
		k.Profile = &replay.Profile{Requests: k.Denied, Paths: values(k.Denied, "/api/v1/search", 100-7*i), Agents: values(k.Denied, "python-requests/2.32.3", 100),
			Statuses: values(k.Denied, "200", 96), Methods: values(k.Denied, "GET", 100)}
	}
	f.NotCompared = []replay.Omission{{Name: "leaky-queue", Why: "it delays requests and refuses none"}}
	f.Sweep = &replay.Sweep{Knee: 12}
	for _, quota := range sampleQuotas {
		o := simulate("", fmt.Sprintf("%d/1m", quota), all).outcome
		f.Sweep.Points = append(f.Sweep.Points, replay.SweepPoint{Quota: quota, Admitted: o.Admitted, Denied: o.Denied, KeysTouched: o.KeysTouched})
		if f.Suggestion == nil && o.KeysTouched*100 <= 2*f.Traffic.Keys {
			f.Suggestion = &replay.Suggestion{Percent: 2, Outcome: o}
		}
	}
	return f
})

// values makes values with their shares in percent.
func values(requests int64, pairs ...any) (list []replay.Value) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, replay.Value{Value: pairs[i].(string), Requests: requests * int64(pairs[i+1].(int)) / 100})
	}
	return list
}
