package seen

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate/policy"
)

// Values of Event.By beyond those of policy.By.
const (
	ByPenalty = "penalty" // the key is kept out because it exceeded its limits
	ByFailure = "failure" // the failure mode, because the store did not answer
	ByNever   = "never"   // the cost is above the quota
)

// ByLimits is the Event.By of limits.
var ByLimits = policy.ByLimits.String()

// listed is how many keys of each list an instance posts.
const listed = 50

// found is a key that may be listed.
type found struct {
	shard  *shard
	k      *entry
	policy int // index in note.Policies
	counts [len(Windows)]Pair
	shadow [len(Windows)]int64 // refusals of counts in shadow mode
	near   [len(Windows)]bool
	share  float64
	asked  bool // the store was asked for share
}

// own returns what this instance has seen: the counts since a minute, its top keys, and those of the wanted that it knows.
func (e *Exchange) own(ctx context.Context, from int64, wanted []keyName) *note {
	now := e.record.minute.Load()
	n := &note{Instance: e.opts.Instance(), Turn: e.turns.Add(1), Policies: e.policies(from, now)}
	n.Instance.ID, n.Instance.Seen, n.Instance.Alive = e.id, e.opts.Now().UTC(), true
	e.addLeases(n)
	secret := e.secretNow(ctx)
	all := e.candidates(n, now)
	chosen := map[*entry]*found{}
	for w := range Windows {
		choose(all, chosen, func(f *found) int64 { return f.counts[w][1] - f.shadow[w] })
		choose(all, chosen, func(f *found) int64 { return f.shadow[w] })
	}
	maps.Copy(chosen, e.nearest(ctx, n, all))
	n.Cut = len(chosen) < e.record.tracked()
	for _, name := range wanted {
		e.addWanted(n, name, chosen, now, secret)
	}
	list := make([]*found, 0, len(chosen))
	for _, f := range chosen {
		list = append(list, f)
	}
	last := len(Windows) - 1
	slices.SortFunc(list, func(a, b *found) int { // what does not fit into a note is the least
		return cmp.Or(cmp.Compare(b.counts[last][1], a.counts[last][1]), cmp.Compare(b.share, a.share), cmp.Compare(a.k.key, b.k.key))
	})
	keys := make([]noteKey, 0, len(list)+len(n.Keys))
	for _, f := range list {
		keys = append(keys, f.describe(e, n, now, secret))
	}
	n.Keys = append(keys, n.Keys...)
	return n
}

// policies returns the policies in force and all others that were seen, with their counts.
func (e *Exchange) policies(from, now int64) (list []notePolicy) {
	index := map[string]int{}
	for i, p := range e.opts.Policies() {
		index[p.Name] = i
		list = append(list, notePolicy{Name: p.Name, Shadow: p.Shadow, Limits: p.Limits, Varies: p.Varies, HoldsOut: p.HoldsOut, Waiting: p.Waiting})
	}
	e.record.each(func(p *PolicyRecord) {
		i, known := index[p.name]
		minutes := p.since(now-hour, now)
		if !known {
			if len(minutes) == 0 {
				return
			}
			i, list = len(list), append(list, notePolicy{Name: p.name})
		}
		for _, m := range minutes {
			if m.at >= from {
				list[i].Minutes = append(list[i].Minutes, noteMinute{m.at, m.Admitted, m.Refused, m.ShadowRefused, m.WithoutStore})
			}
		}
	})
	return list
}

// addLeases adds what is leased now.
func (e *Exchange) addLeases(n *note) {
	leases := e.opts.LeasesOut()
	for _, units := range leases {
		n.Instance.LeasesOut += units
	}
	for i := range n.Policies {
		n.Policies[i].LeasesOut = leases[n.Policies[i].Name]
	}
}

// tracked returns how many keys are tracked.
func (r *Record) tracked() (n int) {
	r.each(func(p *PolicyRecord) { n += int(p.tracked.Load()) })
	return n
}

// candidates returns the keys that were refused or near to a limit within the hour.
func (e *Exchange) candidates(n *note, now int64) (all []*found) {
	for i := range n.Policies {
		p := e.record.find(n.Policies[i].Name)
		if p == nil {
			continue
		}
		p.eachShard(func(sh *shard) {
			for _, k := range sh.list {
				f := &found{shard: sh, k: k, policy: i}
				if f.count(now) {
					all = append(all, f)
				}
			}
		})
	}
	return all
}

func (p *PolicyRecord) eachShard(use func(*shard)) {
	for i := range p.shards {
		sh := &p.shards[i]
		sh.mu.Lock()
		use(sh)
		sh.mu.Unlock()
	}
}

// count sets the counts, and reports whether the key may be listed. The shard is locked.
func (f *found) count(now int64) bool {
	k := f.k
	may := false
	for w, window := range Windows {
		f.counts[w], f.shadow[w] = k.within(now-window), k.shadowWithin(now-window)
		f.near[w] = k.near != nil && !IsCut(k.key) && k.share >= NearShare && f.counts[w][0] > 0 && f.counts[w][1] == 0
		may = may || f.counts[w][1] > 0 || f.near[w]
	}
	f.share = k.share
	return may
}

// choose adds the keys of the highest rank, which is above 0.
func choose(all []*found, to map[*entry]*found, rank func(*found) int64) {
	ranked := slices.DeleteFunc(slices.Clone(all), func(f *found) bool { return rank(f) <= 0 })
	slices.SortFunc(ranked, func(a, b *found) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.k.key, b.k.key))
	})
	for _, f := range ranked[:min(len(ranked), listed)] {
		to[f.k] = f
	}
}

// nearest returns the keys that are nearest to a limit. Those that are not near any more make room for the next ones, until all that are left are near,
// or the store was asked for maxPeeks.
func (e *Exchange) nearest(ctx context.Context, n *note, all []*found) map[*entry]*found {
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	for left := maxPeeks; ; {
		near := map[*entry]*found{}
		for w := range Windows {
			choose(all, near, func(f *found) int64 {
				if !f.near[w] || f.share < NearShare {
					return 0
				}
				return int64(f.share * 1e9)
			})
		}
		asked := e.peekAll(ctx, n, near, left)
		if left -= asked; asked == 0 {
			return near
		}
	}
}

// peekAll asks the store how near those keys are now that were not asked for yet, because time, a reset or a ruling may have freed what they
// had used. It returns how many, at most some. If the store does not answer, the last share stays; so does one that is not a second old.
func (e *Exchange) peekAll(ctx context.Context, n *note, near map[*entry]*found, most int) (asked int) {
	var peeking sync.WaitGroup
	now := e.opts.Now().UnixNano()
	places := make(chan struct{}, peeksAtOnce)
	for _, f := range near {
		if f.asked || asked == most {
			continue
		}
		f.asked = true
		f.shard.mu.Lock()
		recent := now-f.k.asked < int64(turnEvery)
		f.shard.mu.Unlock()
		if recent {
			continue
		}
		asked++
		peeking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			f.shard.mu.Lock()
			key, plan := f.k.key, f.k.plan
			f.shard.mu.Unlock()
			share, limit, err := e.opts.Peek(ctx, n.Policies[f.policy].Name, key, plan)
			if err != nil {
				return
			}
			f.shard.mu.Lock()
			defer f.shard.mu.Unlock()
			f.k.asked = now
			if f.k.share = share; limit != nil {
				f.k.near = limit
			}
			f.share = share
		})
	}
	peeking.Wait()
	return asked
}

// addWanted adds a key that another instance shows: with its counts, or with none if it is not known here.
func (e *Exchange) addWanted(n *note, name keyName, chosen map[*entry]*found, now int64, secret secret) {
	i := slices.IndexFunc(n.Policies, func(p notePolicy) bool { return p.Name == name.Policy })
	if i < 0 {
		return // nothing was seen of the policy
	}
	var sh *shard
	var k *entry
	if p := e.record.find(name.Policy); p != nil {
		sh, k = p.findID(name.ID, secret)
	}
	switch {
	case k == nil:
		n.Keys = append(n.Keys, noteKey{Policy: i, ID: name.ID})
	case chosen[k] == nil:
		sh.mu.Lock()
		f := &found{shard: sh, k: k, policy: i}
		f.count(now)
		sh.mu.Unlock()
		chosen[k] = f
	}
}

// findID returns the key with an ID; nil if there is none.
func (p *PolicyRecord) findID(id string, secret secret) (in *shard, key *entry) {
	p.eachShard(func(sh *shard) {
		for _, k := range sh.list {
			if key == nil && k.idOf(p.name, secret) == id {
				in, key = sh, k
			}
		}
	})
	return in, key
}

// idOf returns the ID of a key. The shard is locked.
func (k *entry) idOf(policy string, secret secret) string {
	if k.id == "" || k.of != secret.generation {
		k.id, k.of = idOf(secret.key, policy, k.key), secret.generation
	}
	return k.id
}

// describe returns what others may know of a key.
func (f *found) describe(e *Exchange, n *note, now int64, secret secret) noteKey {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	k := f.k
	d := noteKey{
		Policy: f.policy, ID: k.idOf(n.Policies[f.policy].Name, secret), Masked: mask(k.key), Counts: f.counts, NearIn: f.near,
		Plan: k.plan, Cut: IsCut(k.key), Share: min(max(f.share, 0), 1), Routes: k.topRoutes(), Last: k.lastAt * 60,
	}
	for w, window := range Windows {
		d.AtLeast[w] = k.lostBefore >= now-window
	}
	if last := k.last(); last.by != "" {
		d.By, d.Limit, d.Shadow, d.Last = last.by, last.limitText(), last.shadow, k.lastRefused.Unix()
		if said := k.said(now); len(said) > 1 || len(said) == 1 && (said[0].By != d.By || said[0].Limit != d.Limit || said[0].Shadow != d.Shadow) {
			d.Causes = said
		}
	}
	if k.near != nil {
		d.Near = k.near.String()
	}
	if !f.asked || f.share < NearShare {
		d.NearIn = [len(Windows)]bool{}
	}
	return d
}

const (
	peekTimeout = 500 * time.Millisecond
	peeksAtOnce = 8
	// maxPeeks is how many keys are asked for at a time: more than all lists have, and few enough for the store.
	maxPeeks = 500
)
