package porttest

import (
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"pgregory.net/rapid"
)

// Script is one run of random requests for a few keys, with windows of similar length, so that times at which one state
// changes often matter to others too.
type Script struct {
	T        *rapid.T
	Subjects []*Subject
	twin     *Twin
	group    string
	oneKey   bool // all subjects have the same
	keys     int  // how many there were

	ids      []rule.ID // of reservations that may hold slots
	done     map[rule.ID]bool
	reserved []reservation
	sent     []sent // settlements and calls that may be sent again
}

// Subject is a key with a few limits of one shape, which share its state: quota, burst, overlap and count_refused differ
// between them.
type Subject struct {
	Limits []*store.Limit
	key    string
	last   rule.Answer
}

// reservation is an admitted request. It keeps the limits that it was made under, while others decide about its keys.
type reservation struct {
	id      rule.ID
	charges []store.Charge
	call    *sent // if it counts once
}

// sent is a request that counts once, and may be sent again.
type sent struct {
	request store.Request
	at      rule.Micros
}

// isKnown reports whether a store must still know a request: by the times of all of them, which are later than the clock if it was set
// back.
func (g *Script) isKnown(s *sent) bool {
	memory, _ := s.request.Memory()
	return max(g.twin.Now, g.twin.latest, g.twin.latestSettled) < s.at+memory
}

func newScript(t *rapid.T, w *Twin, namespace string, opts Options) *Script {
	g := &Script{T: t, twin: w, done: map[rule.ID]bool{}, group: rapid.SampledFrom([]string{"", "group"}).Draw(t, "group")}
	segments := rapid.IntRange(1, rule.MaxSegments).Draw(t, "segments")
	window := drawWindow(t, rule.Micros(segments))
	g.oneKey = opts.OneKey && g.group == ""
	zone := ""
	for i := range rapid.IntRange(1, 6).Draw(t, "keys") {
		shape := drawShape(t, window, segments, opts)
		s := &Subject{}
		for range 3 {
			limit, err := drawQuota(t, w.store, shape, opts).Normalize()
			if err != nil {
				t.Fatal(err)
			}
			s.Limits = append(s.Limits, store.Bind(namespace, fmt.Sprint(i), fmt.Sprint(i), limit))
		}
		if shape.Zone != "" {
			zone = shape.Zone
		}
		g.Subjects = append(g.Subjects, s)
		g.rename(s)
	}
	w.Now = drawOrigin(t, window, zone)
	return g
}

// rename gives a subject a new key, or all of them if they share one.
func (g *Script) rename(s *Subject) {
	g.keys, g.reserved, g.sent = g.keys+1, nil, nil
	s.key = fmt.Sprintf("key-%d", g.keys)
	for _, other := range g.Subjects {
		if g.oneKey {
			other.key = s.key
		}
	}
}

// Moment moves the clock and sends a few requests.
func (g *Script) Moment() {
	g.Move(rapid.SampledFrom(g.Subjects).Draw(g.T, "about"))
	for range rapid.IntRange(1, 8).Draw(g.T, "requests") {
		op, charges, subjects := g.drawRequest()
		r := store.Request{Op: op, Charges: charges}
		if op == rule.Take {
			r.Hold, r.Once = rapid.Bool().Draw(g.T, "hold"), rapid.IntRange(0, 3).Draw(g.T, "once") == 0
		}
		r.ID = g.drawID(op, r.Once)
		all, answers, call := true, []rule.Answer(nil), (*sent)(nil)
		answers, call = g.send(r)
		for i, a := range answers {
			all = all && a.Allowed
			if subjects[i].last = a; op == rule.Take {
				charges[i].At = a.At
			}
		}
		if op == rule.Take && all {
			g.reserved = append(g.reserved, reservation{r.ID, slices.Clone(charges), call})
		}
		g.finish()
		g.sendAgain()
	}
	g.Compare()
}

// Move moves the clock, often to where something changes for a subject. If it moves back to before the end of a state
// that was already over, a store may or may not have forgotten the state: the subject continues with another key.
func (g *Script) Move(about *Subject) {
	g.twin.latest = max(g.twin.latest, g.twin.Now)
	g.twin.Now = g.drawMoment(about)
	for _, s := range g.Subjects {
		limit := s.Limits[0]
		state := *g.twin.state(limit, g.group, s.key)
		all := limit.Rule().Expires(&state)
		state.Holds = nil // they may have been taken after what was used was forgotten
		used := limit.Rule().Expires(&state)
		if all <= g.twin.latest && g.twin.Now < all || used <= g.twin.latest && g.twin.Now < used {
			g.rename(s)
		}
	}
}

// Advance lets a part of a subject's window pass, often a small one.
func (g *Script) Advance(about *Subject) {
	l := about.Limits[0].Rule()
	g.twin.latest = max(g.twin.latest, g.twin.Now)
	g.twin.Now = min(g.twin.Now+spread(g.T, "advance", 0, l.Window/rapid.SampledFrom([]rule.Micros{1, 10, 100, 1000}).Draw(g.T, "part of the window")), rule.MaxNow)
}

// send sends a request. Those that count once are recorded, to be sent again.
func (g *Script) send(r store.Request) (answers []rule.Answer, once *sent) {
	r.Group, r.Charges = g.group, slices.Clone(r.Charges)
	answers = g.twin.Send(r)
	if r.Op != rule.Settle && !r.Once {
		return answers, nil
	}
	r.Charges = slices.Clone(r.Charges)
	g.sent = append(g.sent, sent{r, g.twin.settledAt})
	return answers, &g.sent[len(g.sent)-1]
}

// finish settles, cancels, refunds or renews a reservation under the limits that it was made under.
func (g *Script) finish() {
	if len(g.reserved) == 0 || rapid.IntRange(0, 2).Draw(g.T, "finish") > 0 {
		return
	}
	n := rapid.IntRange(0, len(g.reserved)-1).Draw(g.T, "which")
	r := g.reserved[n]
	op := rapid.SampledFrom([]rule.Op{rule.Settle, rule.Settle, rule.Settle, rule.GiveBack, rule.Renew}).Draw(g.T, "by")
	if op == rule.Settle && g.done[r.id] {
		op = rule.GiveBack
	}
	for i := range r.charges {
		c := &r.charges[i]
		switch used := g.DrawCost(c.Limit, c.Cost); {
		case op == rule.GiveBack:
			c.Cost = min(c.Cost, used)
		case rapid.IntRange(0, 2).Draw(g.T, "cancel") > 0:
			c.Used = used
		}
	}
	if op == rule.Settle {
		g.done[r.id] = true
		g.reserved = slices.Delete(g.reserved, n, n+1)
	}
	byID := op == rule.Settle && r.call != nil && g.isKnown(r.call) && rapid.Bool().Draw(g.T, "by its ID")
	g.send(store.Request{Op: op, ID: r.id, Charges: r.charges, Once: byID})
}

// drawID draws the ID of a request: an earlier one, or another. A call that counts once gets another.
func (g *Script) drawID(op rule.Op, once bool) (id rule.ID) {
	if n := len(g.ids); n > 0 && !once && rapid.IntRange(0, 2).Draw(g.T, "known") > 0 {
		id = g.ids[rapid.IntRange(max(0, n-20), n-1).Draw(g.T, "reservation")]
	} else {
		id = rule.ID(len(g.ids)+1) * 0x9E3779B97F4A7C15 // all of its bits count
		g.ids = append(g.ids, id)
	}
	if op == rule.Settle && g.done[id] { // each ID is settled once; repeated settlements are equal
		id = rule.ID(len(g.ids)+1) * 0x9E3779B97F4A7C15
		g.ids = append(g.ids, id)
	}
	if op == rule.Settle {
		g.done[id] = true
	}
	return id
}

// sendAgain repeats settlements and calls that a store must still know.
func (g *Script) sendAgain() {
	for n := len(g.sent); n > 0 && rapid.IntRange(0, 2).Draw(g.T, "send again") == 0; n-- {
		s := &g.sent[n-1]
		if memory, _ := s.request.Memory(); memory > 0 && !g.isKnown(s) {
			return
		}
		again := s.request
		again.Charges = slices.Clone(again.Charges)
		if a := g.twin.Send(again); again.Op == rule.Take && a[0].Flags&rule.Repeated == 0 { // it had been refused, and may be remembered from now on
			s.at = g.twin.settledAt
		}
	}
}

// Room returns how many units a limit of a subject has left now.
func (g *Script) Room(s *Subject, limit *store.Limit) int64 {
	r := limit.Rule()
	return r.Capacity() - r.Used(g.twin.state(limit, g.group, s.key), g.twin.Now)
}

// Take requests units of one limit of a subject.
func (g *Script) Take(s *Subject, limit *store.Limit, cost int64) { g.Apply(rule.Take, s, limit, cost) }

// Apply sends another operation for one limit of a subject. The time of refunded units is drawn.
func (g *Script) Apply(op rule.Op, s *Subject, limit *store.Limit, cost int64) {
	s.last = g.twin.Apply(op, g.group, store.Charge{Limit: limit, Key: s.key, Cost: cost, At: g.drawBack(op, limit, s)})[0]
}

// Compare ends a round: the store gets the same requests as the rule, and must give the same answers.
func (g *Script) Compare() {
	if err := g.twin.Compare(); err != nil {
		g.T.Fatal(err)
	}
}

// drawRequest draws a request, for one subject or for all.
func (g *Script) drawRequest() (op rule.Op, charges []store.Charge, subjects []*Subject) {
	op = rapid.SampledFrom([]rule.Op{
		rule.Take, rule.Take, rule.Take, rule.Take, rule.Take, rule.TakeUpTo,
		rule.TakeUpTo, rule.Peek, rule.Charge, rule.GiveBack, rule.GiveBack, rule.Reset, rule.Settle, rule.Settle, rule.Renew,
	}).Draw(g.T, "op")
	if op == rule.Reset && rapid.IntRange(0, 2).Draw(g.T, "really") > 0 {
		op = rule.Take // otherwise most states would be nearly empty
	}
	subjects = rapid.Permutation(g.Subjects).Draw(g.T, "subjects")
	if rapid.IntRange(0, 2).Draw(g.T, "several") > 0 {
		subjects = subjects[:1]
	}
	for _, s := range subjects {
		limit := s.Limits[max(0, rapid.IntRange(-4, len(s.Limits)-1).Draw(g.T, "other limit"))]
		charge := store.Charge{Limit: limit, Key: s.key, Cost: g.DrawCost(limit, g.Room(s, limit)), At: g.drawBack(op, limit, s)}
		if op == rule.Settle {
			charge.Used = g.DrawCost(limit, charge.Cost)
		}
		charges = append(charges, charge)
	}
	return op, charges, subjects
}

// drawBack draws the time of refunded units.
func (g *Script) drawBack(op rule.Op, limit *store.Limit, s *Subject) rule.Micros {
	if op != rule.GiveBack && op != rule.Settle {
		return 0
	}
	switch rapid.IntRange(0, 4).Draw(g.T, "back") {
	case 4:
		at := g.twin.Now - limit.Rule().Window + rule.Micros(rapid.Int64Range(-1, 1).Draw(g.T, "beside a window ago"))
		return min(max(at, 1), rule.MaxNow)
	case 0:
		return rule.Oldest
	case 1:
		return s.last.At
	case 2:
		return ownTime(limit.Rule(), g.twin.state(limit, g.group, s.key), g.twin.Now)
	default:
		return min(max(g.twin.Now-spread(g.T, "ago", -1, 3*limit.Rule().Window), 1), rule.MaxNow)
	}
}

// drawMoment returns the time of the next requests: the same time, a little or a lot later or earlier, or one at which
// something changes, or next to it.
func (g *Script) drawMoment(s *Subject) rule.Micros {
	l, now := s.Limits[0].Rule(), g.twin.Now
	own := ownTime(l, g.twin.state(s.Limits[0], g.group, s.key), now)
	part := l.Window / rule.Micros(max(1, l.Segments))
	beside := rule.Micros(rapid.Int64Range(-1, 1).Draw(g.T, "beside"))
	switch rapid.IntRange(0, 11).Draw(g.T, "step") {
	case 0:
	case 10:
		now += s.last.NextAfter + beside
	case 11:
		if l.Calendar != 0 {
			start, end := l.Bounds(now)
			now = rapid.SampledFrom([]rule.Micros{start, end}).Draw(g.T, "bound") + beside
		}
	case 1:
		now += beside
	case 2:
		now += spread(g.T, "within a part", 0, part)
	case 3, 4:
		now = own + part*rule.Micros(rapid.Int64Range(0, int64(l.Parts())+1).Draw(g.T, "parts")) + beside
	case 5:
		if s.last.RetryAfter != rule.Never {
			now += s.last.RetryAfter + beside
		}
	case 6:
		now += s.last.ResetAfter + beside
	case 7:
		now += spread(g.T, "within a window", -l.Window, l.Window)
	case 8:
		now = own - l.Window + beside // from where on the state is a window ahead
	default:
		now += spread(g.T, "jump", -4*l.Window, 4*l.Window)
	}
	return min(max(now, 0), rule.MaxNow)
}

// ownTime returns the time that a state remembers, if it does.
func ownTime(l *rule.Limit, s *rule.State, now rule.Micros) rule.Micros {
	switch {
	case (l.Algorithm == rule.SlidingLog || l.Algorithm == rule.DefaultAlgorithm && !s.InParts()) && s.Log.Len() > 0:
		return s.Log.Time(s.Log.Len() - 1)
	case l.Algorithm == rule.InFlight && len(s.Slots) > 0:
		return s.Slots[len(s.Slots)-1].Renewed
	case l.Algorithm == rule.TokenBucket && s.Start > 0, l.Parts() > 0 && len(s.Counts) > 0 && s.Start != rule.Absent:
		return s.Start
	}
	return now
}

// DrawCost draws a cost where room units are left: often exactly that many, or one more or less.
func (g *Script) DrawCost(limit *store.Limit, room int64) (cost int64) {
	l := limit.Rule()
	if l.Algorithm == rule.InFlight {
		return min(1, rapid.Int64Range(0, 5).Draw(g.T, "slot"))
	}
	if l.Algorithm == rule.DefaultAlgorithm && rapid.IntRange(0, 5).Draw(g.T, "fill a log") == 0 {
		return min(max(rule.DefaultLog-(l.Quota-room)+rapid.Int64Range(-1, 1).Draw(g.T, "beside a full log"), 0), rule.MaxQuota)
	}
	switch rapid.IntRange(0, 5).Draw(g.T, "cost kind") {
	case 0:
		cost = 1
	case 1:
		cost = room + rapid.Int64Range(-1, 1).Draw(g.T, "beside room")
	case 2:
		cost = l.Capacity() + rapid.Int64Range(-1, 1).Draw(g.T, "beside capacity")
	case 3:
		cost = rapid.Int64Range(0, 5).Draw(g.T, "small")
	case 4:
		cost = draw(g.T, "cost", 0, int64(rule.MaxQuota))
	default:
		cost = spread(g.T, "part of it", 0, l.Capacity())
	}
	return min(max(cost, 0), rule.MaxQuota)
}
