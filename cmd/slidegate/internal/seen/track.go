package seen

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
)

// maxKey is the length, in bytes, up to which keys are kept whole: that of the longest key that a ruling can be about. Of a longer one, the end
// is replaced by a hash, so that two keys stay two.
const maxKey = 1024

const hashDigits = 16

// shorten returns the key as it is tracked. One that was cut is longer than any that is whole; see IsCut.
func shorten(key string) string {
	if len(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return key[:maxKey-hashDigits] + "#" + hex.EncodeToString(sum[:hashDigits/2])
}

// IsCut reports whether a key, as it is tracked, is only the beginning of one: nothing can be asked or ruled about it.
func IsCut(key string) bool { return len(key) > maxKey }

// shard is a part of a policy's keys.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
	list    []*entry // the same, for picking some at random
	counts  minuteCounts
	_       [64]byte // on another cache line than the next one
}

// entry is what was seen of one key.
type entry struct {
	key   string
	index int // in shard.list

	minutes []cell  // those in which there were decisions, the latest last
	first   [2]cell // where minutes begins: most keys need no more
	lastAt  int64   // the latest of them; also here, for least
	refused int64   // since the key is tracked
	weight  int64   // what the key is kept by: its admissions and refusals, which count more
	// lostBefore is the minute of the last loss of a key when this one began, so that it may be the one that was lost; 0 if there was none.
	lostBefore int64

	causes      []cause // what refused it; see causeOf
	lastCause   uint8   // index of the latest in causes
	lastRefused time.Time

	near   *slidegate.Limit // of which the largest share was used at the last admission; nil if there is none
	share  float64
	asked  int64 // when the store was last asked for share, in nanoseconds since 1970
	plan   string
	routes [maxRoutes]route
}

// cell counts the decisions about a key in one minute. If it was refused for several causes, each has a cell of its own.
type cell struct {
	word              uint32 // the minute, and in the last bits the cause of refused; together, since there are many cells
	admitted, refused uint32
}

// causeBits are enough for an index in entry.causes.
const causeBits = 2

func newCell(minute int64) cell { return cell{word: uint32(minute) << causeBits} }

func (c *cell) minute() int64 { return int64(c.word >> causeBits) }

func (c *cell) cause() uint8 { return uint8(c.word & (1<<causeBits - 1)) }

func (c *cell) setCause(cause uint8) { c.word = c.word&^(1<<causeBits-1) | uint32(cause) }

// refusalWeight is how much more a refusal counts than an admission when a key has to make room.
const refusalWeight = 16

// trackLocked begins to track a key, and returns nil if there is no room.
func (p *PolicyRecord) trackLocked(sh *shard, key string, now int64) *entry {
	k := &entry{}
	k.minutes = k.first[:0]
	for p.tracked.Load() >= p.bound.Load() {
		if len(sh.list) == 0 {
			p.lastLost.Store(now)
			return nil
		}
		p.dropLocked(sh, sh.least(now), now)
		if p.tracked.Load() < p.bound.Load()-1 {
			break // another shard has made room too
		}
	}
	k.key, k.index, k.lostBefore = strings.Clone(key), len(sh.list), p.lastLost.Load()
	sh.entries[k.key] = k
	sh.list = append(sh.list, k)
	p.tracked.Add(1)
	return k
}

// dropLocked forgets a key.
func (p *PolicyRecord) dropLocked(sh *shard, k *entry, now int64) {
	if k.lastAt >= now-hour {
		p.lastLost.Store(now)
	}
	delete(sh.entries, k.key)
	last := sh.list[len(sh.list)-1]
	sh.list[k.index], last.index = last, k.index
	sh.list[len(sh.list)-1] = nil
	sh.list = sh.list[:len(sh.list)-1]
	p.tracked.Add(-1)
}

// samples is how many keys are compared to find one that makes room. That is enough for a key that matters to stay through a flood of
// keys that are seen once: it would have to be the least of five picked at random. It takes the same time however many there are.
const samples = 5

// least returns the key with the least weight among a few.
func (sh *shard) least(now int64) (found *entry) {
	var least int64
	start := rand.IntN(len(sh.list))
	for i := range min(samples, len(sh.list)) {
		k := sh.list[(start+i*len(sh.list)/samples)%len(sh.list)]
		if w := k.aged(now); found == nil || w < least {
			found, least = k, w
		}
	}
	return found
}

// aged returns the weight that is left: half of it after eight minutes without a decision, and none once the counts are gone.
func (k *entry) aged(now int64) int64 {
	age := max(now-k.lastAt, 0)
	if age > hour {
		return 0
	}
	return k.weight >> (age / 8)
}
