package seen

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
)

const (
	// MaxKeys is the most keys that are tracked of a policy, and maxAll of all policies together.
	MaxKeys = 10_000
	maxAll  = 20_000

	// hour is how many minutes are kept before the current one.
	hour = 60
	// maxPolicies bounds the policies that are told apart; others are counted together as "other".
	maxPolicies = 1000
	shardCount  = 16 // of a policy; a power of two
)

// Record is what one instance has seen. It is safe for concurrent use. The zero value is not usable; call NewRecord.
type Record struct {
	now    func() time.Time
	minute atomic.Int64 // the current one, in minutes since 1970; reading the clock for every decision would take as long as counting
	seed   maphash.Seed

	mu       sync.Mutex
	policies map[string]*PolicyRecord
}

// NewRecord returns an empty Record. Its time is that of the last call of Tick.
func NewRecord(now func() time.Time) *Record {
	r := &Record{now: now, seed: maphash.MakeSeed(), policies: map[string]*PolicyRecord{}}
	r.Tick()
	return r
}

// Tick reads the clock. Call it once a second.
func (r *Record) Tick() { r.minute.Store(minuteOf(r.now())) }

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// Policy returns the record of the policy of that name, always the same one.
func (r *Record) Policy(name string) *PolicyRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.policies) >= maxPolicies && r.policies[name] == nil {
		name = "other"
	}
	p := r.policies[name]
	if p == nil {
		p = &PolicyRecord{record: r, name: name}
		for i := range p.shards {
			p.shards[i].entries = map[string]*entry{}
		}
		r.policies[name] = p
		for _, one := range r.policies {
			one.bound.Store(min(MaxKeys, maxAll/int64(len(r.policies))))
		}
	}
	return p
}

// each calls use with every policy, by name.
func (r *Record) each(use func(*PolicyRecord)) {
	r.mu.Lock()
	all := make([]*PolicyRecord, 0, len(r.policies))
	for _, p := range r.policies {
		all = append(all, p)
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b *PolicyRecord) int { return cmp.Compare(a.name, b.name) })
	for _, p := range all {
		use(p)
	}
}

// find returns the policy of that name, or nil.
func (r *Record) find(name string) *PolicyRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.policies[name]
}

// Event is one decision about a key.
type Event struct {
	Refused  bool
	Shadow   bool   // the policy is in shadow mode: what it refused was admitted
	Fallback bool   // the store did not answer
	By       string // what refused
	// Limit is the limit that refused, or that is used up most; nil if no limit decided. It must not change.
	Limit     *slidegate.Limit
	Remaining int64
	// Method and Route are of the request: a path, or a rule of Envoy's.
	Method, Route string
	// Plan selects the limits, for a later peek.
	Plan string
}

// PolicyRecord is what was seen of one policy. It is safe for concurrent use. The zero value is not usable; call Record.Policy.
type PolicyRecord struct {
	record   *Record
	name     string
	tracked  atomic.Int64 // keys
	bound    atomic.Int64 // on tracked
	lastLost atomic.Int64 // the minute in which a key was last replaced that had been seen within an hour

	shards [shardCount]shard

	mu      sync.Mutex
	minutes [hour + 1]minuteCounts // by the minute modulo their number
}

// minuteCounts are the counts of one minute.
type minuteCounts struct {
	at int64
	Counts
}

// Counts counts the decisions of a policy.
type Counts struct {
	Admitted, Refused, ShadowRefused, WithoutStore int64
}

func (c *Counts) add(o *Counts) {
	c.Admitted += o.Admitted
	c.Refused += o.Refused
	c.ShadowRefused += o.ShadowRefused
	c.WithoutStore += o.WithoutStore
}

// Add counts a decision. It keeps nothing of the key and the event's texts without copying them.
func (p *PolicyRecord) Add(key string, e *Event) {
	key = shorten(key)
	now := p.record.minute.Load()
	sh := p.shardOf(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	counts := p.countsLocked(sh, now)
	switch {
	case e.Refused && e.Shadow:
		counts.ShadowRefused++
	case e.Refused:
		counts.Refused++
	default:
		counts.Admitted++
	}
	if e.Fallback {
		counts.WithoutStore++
	}
	k := sh.entries[key]
	if k == nil {
		if k = p.trackLocked(sh, key, now); k == nil {
			return
		}
	}
	k.count(e, now, p.record.now)
}

func (p *PolicyRecord) shardOf(key string) *shard {
	return &p.shards[maphash.String(p.record.seed, key)&(shardCount-1)]
}

// countsLocked returns the counts of the current minute in a shard. Those of an earlier minute are moved to the policy's.
func (p *PolicyRecord) countsLocked(sh *shard, now int64) *Counts {
	if sh.counts.at != now {
		p.flush(&sh.counts)
		sh.counts = minuteCounts{at: now}
	}
	return &sh.counts.Counts
}

// flush adds the counts of a shard to the policy's.
func (p *PolicyRecord) flush(c *minuteCounts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.minutes[c.at%int64(len(p.minutes))]
	if m.at < c.at {
		*m = minuteCounts{at: c.at}
	}
	if m.at == c.at {
		m.add(&c.Counts)
	}
}

// since returns the counts by minute, from a minute to the current one, without those in which nothing was decided.
func (p *PolicyRecord) since(from, now int64) (all []minuteCounts) {
	for i := range p.shards {
		sh := &p.shards[i]
		sh.mu.Lock()
		p.flush(&sh.counts)
		sh.counts.Counts = Counts{}
		sh.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := max(from, now-hour); at <= now; at++ {
		if m := p.minutes[at%int64(len(p.minutes))]; m.at == at && m.Counts != (Counts{}) {
			all = append(all, m)
		}
	}
	return all
}
