package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
)

// settlements remembers what IDs did: which reservations were settled, which calls that count once were made, and with which
// results. It is bounded twice: by the number of IDs per address and generation, and by their total number. In what follows, a
// settlement is either.
//
// A generation lasts as long as a settlement must be remembered. Settlements of one generation are certain to be known until
// the next generation ends. So all settlements of a generation can be dropped together, and only their number must be kept.
// If one is full, further settlements change nothing, because refusing to give back is safe and giving back twice is not.
// They stay known for rule.LongMemory unless the space is needed. Settlements at one address that must be remembered for
// different times are counted apart, but found by the address and the ID alone.
//
// All requests about an address hold the lock of its page, so no other request with the same ID is decided between recall
// and remember. The locks here only guard the maps, which contain no pointers for the garbage collector to follow.
type settlements struct {
	capacity int64
	held     atomic.Int64 // in all shards, including expired ones that have not been dropped yet
	shards   [settlementShards]settlementShard
}

const (
	settlementShards = 64
	minSettlements   = 4096 // minimum capacity, however small MaxBytes is
	firstDrop        = 256  // minimum number added to a shard before expired ones are dropped
)

// settlementShard holds the settlements of some addresses.
type settlementShard struct {
	mu          sync.Mutex
	known       map[settlementKey]settlement
	generations map[uint64]generation // by group
	results     []int64               // the records of all known settlements, in the order in which they were added
	added       int                   // settlements added since expired ones were last dropped
	dropAt      int                   // value of added at which expired ones are dropped again
	soonest     rule.Micros           // before this time, no settlement may be dropped
}

// settlementKey identifies a settlement. The address is a hash of the first charge's address.
type settlementKey struct{ address, id uint64 }

// settlement is the position of its record in results, and how long it is known.
type settlement struct {
	settlementLife
	first, length uint32
}

// settlementLife is how long a settlement is known: for certain until the generation after its own ends, and until expires if
// there is space. The group is a hash of its address and of how long it must be remembered.
type settlementLife struct {
	certain, expires rule.Micros
	group            uint64
}

// generation counts the settlements of one group that are certain for the same time.
type generation struct {
	certain rule.Micros
	count   int64
}

// settling is how the settlement of a job is remembered. It is the zero value if it need not be.
type settling struct {
	shard       *settlementShard
	key         settlementKey
	life        settlementLife
	settlements int64 // how many settlements one generation may have
}

func newSettlements(most int64) *settlements {
	return &settlements{capacity: max(most, minSettlements)}
}

// settlingOf computes the key under which the job's ID is remembered, and for how long. It loads the states of all claims
// that have a slot.
func (j *job) settlingOf(now rule.Micros) settling {
	if j.memory == 0 {
		return settling{}
	}
	for i := range j.claims {
		c := &j.claims[i]
		if c.slot < 0 {
			c.ownState()
		}
		c.loadState()
	}
	address := newHasher(j.store.key).word(j.claims[0].h)
	s := settling{key: settlementKey{address.sum(""), uint64(j.id)}, settlements: j.most}
	s.shard = j.store.settlements.shardOf(s.key)
	s.life = lifeOf(rule.SettledAt(j.items, now), j.memory)
	s.life.group = address.word(uint64(j.memory)).sum("")
	return s
}

// lifeOf returns how long a settlement at at is known. Many lives end at the same time, so that many settlements are dropped
// at once.
func lifeOf(at, memory rule.Micros) settlementLife {
	end := func(length rule.Micros) rule.Micros { return (at/length + 2) * length }
	return settlementLife{certain: end(memory), expires: max(end(memory), end(rule.LongMemory))}
}

func (m *settlements) shardOf(key settlementKey) *settlementShard {
	return &m.shards[key.address%settlementShards]
}

// recall fills memo with what is known of an ID.
func (m *settlements) recall(s *settling, now rule.Micros, memo *rule.Memo) {
	*memo = rule.Memo{Record: memo.Record[:0]}
	if s.shard == nil {
		return
	}
	s.shard.recall(s, now, memo)
	if !memo.Known && !memo.Full && m.held.Load() >= m.capacity {
		memo.Full = !m.makeSpace(now)
	}
}

func (d *settlementShard) recall(s *settling, now rule.Micros, memo *rule.Memo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// The generation may be in the future, because the clock may have been set back since.
	if known, ok := d.known[s.key]; ok && known.expires > now {
		memo.Known = true
		memo.Record = append(memo.Record, d.results[known.first:][:known.length]...)
		return
	}
	g := d.generations[s.life.group]
	memo.Full = g.certain == s.life.certain && g.count >= s.settlements
}

// remember stores the record of a settlement, which replaces one with the same ID.
func (m *settlements) remember(s *settling, now rule.Micros, record []int64) {
	d := s.shard
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.known)
	if d.added >= d.dropAt {
		d.drop(func(life settlementLife) bool { return life.expires <= now })
	}
	d.add(s.key, s.life, record)
	m.held.Add(int64(len(d.known) - before))
}

// add adds a settlement.
func (d *settlementShard) add(key settlementKey, life settlementLife, record []int64) {
	if d.known == nil {
		d.known, d.generations = map[settlementKey]settlement{}, map[uint64]generation{}
		d.dropAt, d.soonest = firstDrop, life.certain
	}
	earlier, replaced := d.known[key]
	d.known[key] = settlement{settlementLife: life, first: uint32(len(d.results)), length: uint32(len(record))}
	d.results = append(d.results, record...)
	d.added++
	d.soonest = min(d.soonest, life.certain)
	switch g := d.generations[life.group]; {
	case replaced && earlier.group == life.group && earlier.certain == life.certain: // it is counted already
	case g.certain == life.certain:
		d.generations[life.group] = generation{life.certain, g.count + 1}
	case g.certain < life.certain:
		d.generations[life.group] = generation{life.certain, 1}
	}
}

// makeSpace drops the settlements of all shards that are no longer certain, and reports whether that made space. A shard is
// scanned only if it has one, because many cease to be certain together.
func (m *settlements) makeSpace(now rule.Micros) bool {
	for i := range m.shards {
		m.shards[i].makeSpace(m, now)
	}
	return m.held.Load() < m.capacity
}

func (d *settlementShard) makeSpace(m *settlements, now rule.Micros) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before := len(d.known); before > 0 && d.soonest <= now {
		d.drop(func(life settlementLife) bool { return life.certain <= now })
		m.held.Add(int64(len(d.known) - before))
	}
}

// drop drops settlements. It rebuilds the maps, because a map never releases memory.
func (d *settlementShard) drop(gone func(settlementLife) bool) {
	old := settlementShard{known: d.known, generations: d.generations, results: d.results}
	d.known, d.generations, d.results, d.soonest = map[settlementKey]settlement{}, map[uint64]generation{}, nil, rule.Never
	for key, known := range old.known {
		if gone(known.settlementLife) {
			continue
		}
		d.known[key] = settlement{known.settlementLife, uint32(len(d.results)), known.length}
		d.results = append(d.results, old.results[known.first:][:known.length]...)
		d.soonest = min(d.soonest, known.certain)
		if g := old.generations[known.group]; g.certain == known.certain {
			d.generations[known.group] = g
		}
	}
	d.added, d.dropAt = 0, max(firstDrop, len(d.known))
}
