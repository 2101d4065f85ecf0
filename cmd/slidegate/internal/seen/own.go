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

const (
	listed = 50 // how many keys of each list an instance writes
	// others is how many further keys it writes, which may be on the lists of other instances: with few keys, all sums are exact.
	others = 300
)

// found is a key that may be written.
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

// own returns what this instance has seen: the counts of the hour, and its top keys.
func (e *Exchange) own(ctx context.Context) *note {
	now := e.record.minute.Load()
	n := &note{Instance: e.opts.Instance(), Policies: e.policies(now)}
	n.Instance.ID = e.id
	e.addLeases(n)
	all := e.candidates(n, now)
	chosen := map[*entry]*found{}
	for w := range Windows {
		choose(all, chosen, listed, func(f *found) int64 { return f.counts[w][1] - f.shadow[w] })
		choose(all, chosen, listed, func(f *found) int64 { return f.shadow[w] })
	}
	choose(all, chosen, others, func(f *found) int64 { return f.counts[len(Windows)-1][0] })
	maps.Copy(chosen, e.nearest(ctx, n, all))
	n.Cut = len(chosen) < e.record.tracked()
	list := slices.Collect(maps.Values(chosen))
	last := len(Windows) - 1
	slices.SortFunc(list, func(a, b *found) int { // what does not fit into a document is the least
		return cmp.Or(cmp.Compare(b.counts[last][1], a.counts[last][1]), cmp.Compare(b.share, a.share), cmp.Compare(a.k.key, b.k.key))
	})
	for _, f := range list {
		n.Keys = append(n.Keys, f.describe(now))
	}
	return n
}

// policies returns the policies in force and all others that were seen, with their counts.
func (e *Exchange) policies(now int64) (list []notePolicy) {
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
			list[i].Minutes = append(list[i].Minutes, noteMinute{m.at, m.Admitted, m.Refused, m.ShadowRefused, m.WithoutStore})
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

// candidates returns the keys about which something was decided within the hour.
func (e *Exchange) candidates(n *note, now int64) (all []*found) {
	for i := range n.Policies {
		p := e.record.find(n.Policies[i].Name)
		if p == nil {
			continue
		}
		p.eachShard(func(sh *shard) {
			for _, k := range sh.list {
				if k.lastAt >= now-hour {
					f := &found{shard: sh, k: k, policy: i}
					f.count(now)
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

// count sets the counts. The shard is locked.
func (f *found) count(now int64) {
	k := f.k
	for w, window := range Windows {
		f.counts[w], f.shadow[w] = k.within(now-window), k.shadowWithin(now-window)
		f.near[w] = k.near != nil && !IsCut(k.key) && k.share >= NearShare && f.counts[w][0] > 0 && f.counts[w][1] == 0
	}
	f.share = k.share
}

// choose adds the keys of the highest rank, which is above 0, and at most so many.
func choose(all []*found, to map[*entry]*found, most int, rank func(*found) int64) {
	ranked := slices.DeleteFunc(slices.Clone(all), func(f *found) bool { return rank(f) <= 0 })
	slices.SortFunc(ranked, func(a, b *found) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.k.key, b.k.key))
	})
	for _, f := range ranked[:min(len(ranked), most)] {
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
			choose(all, near, listed, func(f *found) int64 {
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

// findID returns the key with an ID.
func (p *PolicyRecord) findID(id string, secret []byte) (key string, ok bool) {
	var keys []string
	p.eachShard(func(sh *shard) {
		for _, k := range sh.list {
			keys = append(keys, k.key)
		}
	})
	i := slices.IndexFunc(keys, func(key string) bool { return idOf(secret, p.name, key) == id })
	if i < 0 {
		return "", false
	}
	return keys[i], true
}

// describe returns what others may know of a key.
func (f *found) describe(now int64) noteKey {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	k := f.k
	d := noteKey{
		Policy: f.policy, Key: []byte(k.key), Counts: f.counts, Causes: k.said(now), Plan: k.plan,
		Routes: k.topRoutes(), Last: k.lastAt * 60,
	}
	for w, window := range Windows {
		d.AtLeast[w] = k.lostBefore >= now-window
	}
	if k.last().by != "" {
		d.Last = k.lastRefused.Unix()
	}
	if k.near != nil && (f.asked || f.counts[len(Windows)-1][1] > 0) { // otherwise others may know better
		d.Near, d.Share = k.near.String(), min(max(f.share, 0), 1)
	}
	if f.asked && f.share >= NearShare {
		d.NearIn = f.near
	}
	return d
}

const (
	peekTimeout = 500 * time.Millisecond
	peeksAtOnce = 8
	// maxPeeks is how many keys are asked for at a time: more than all lists have, and few enough for the store.
	maxPeeks = 500
)
