package natskv

import (
	"sync"
	"time"
)

// pulse knows whether the server that answers as the leader of a replicated stream can be relied on.
//
// A leader that is cut off from the other servers, or stopped, does not notice when they choose another one. It goes on answering, for up
// to 20 seconds, and, when it is back among them, for up to a second next to the new leader. Its reads are of the past, and so are
// its refusals to swap. Only what it acknowledges counts: for that it needs most of the servers.
//
// Servers choose another leader when they have not heard of theirs for at least 4 seconds. So as long as writes of this process
// have been acknowledged, each sooner than that after the one before, there was no election, and there is one leader. After a longer gap there may be
// an old one, until it must have noticed. A process that has nothing to write writes a message of its own often enough.
//
// Pulse is safe for concurrent use. A nil pulse is that of a stream without replicas, which has one leader at all times.
type pulse struct {
	base time.Time

	mu   sync.Mutex
	last beat          // the last write that was acknowledged
	calm time.Duration // since base; from then on there is one leader, if beats go on
}

// beat is a write that was acknowledged.
type beat struct {
	sent   time.Duration // since base
	server string        // the ID of the server that this process was connected to
}

const (
	beatLasts = 3 * time.Second  // less than the least time after which servers choose another leader
	beatEvery = 1 * time.Second  // how long nothing is written before this process writes something of its own
	unaware   = 22 * time.Second // the longest time for which a leader does not know that it is none, and a bit
)

// newPulse returns a pulse of a stream that is known to have had one leader for a time.
func newPulse(calmFor time.Duration) *pulse {
	return &pulse{base: time.Now(), last: beat{sent: -beatLasts}, calm: unaware - calmFor}
}

// start returns what acknowledged is to be called with if something is written now.
func (p *pulse) start(server string) beat {
	if p == nil {
		return beat{}
	}
	return beat{time.Since(p.base), server}
}

// acknowledged notes that what was written after start was acknowledged.
func (p *pulse) acknowledged(b beat) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.sent < p.last.sent {
		return
	}
	if b.sent-p.last.sent >= beatLasts && p.last.server != "" {
		p.calm = time.Since(p.base) + unaware
	}
	p.last = b
}

// steady reports whether there is one leader alone, so that the server that has just answered is it.
func (p *pulse) steady(server string) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Since(p.base)
	return now-p.last.sent < beatLasts && p.last.server == server && now >= p.calm
}

// due returns how long it is until this process has to write something of its own.
func (p *pulse) due() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.sent + beatEvery - time.Since(p.base)
}
