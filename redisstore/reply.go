package redisstore

import (
	"errors"
	"fmt"
	"math"

	"github.com/slidegate/slidegate/internal/port"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var (
	errReply = errors.New("redisstore: invalid reply of the script")

	// errOutside is the error of a request whose calendar periods do not contain the server's time.
	errOutside = errors.New("redisstore: the clocks of this program and of the server differ too much for a calendar window; set them")
)

// Flags of the script's reply to a charge.
const (
	replyAllowed = 1 << iota
	replyMoved
	replyRepeated
	replyUnsettled
	replyOtherVersion
	replyInParts
	replyHeld // all of the state follows, and what is held
	replyLost // refused for good
	replyNotOnce
)

// reader reads data that the script packed.
type reader struct {
	text string
	bad  bool
}

func (r *reader) bytes(n int) string {
	if r.bad || len(r.text) < n {
		r.bad = true
		return "\x00\x00\x00\x00\x00\x00\x00\x00"[:min(n, 8)]
	}
	b := r.text[:n]
	r.text = r.text[n:]
	return b
}

func (r *reader) byte() byte { return r.bytes(1)[0] }

func (r *reader) short() int { b := r.bytes(2); return int(b[0]) | int(b[1])<<8 }

func (r *reader) number() int64 { return int64(math.Float64frombits(r.word())) }

func (r *reader) word() (bits uint64) {
	b := r.bytes(8)
	for i := range 8 {
		bits |= uint64(b[i]) << (8 * i)
	}
	return bits
}

func (r *reader) micros() rule.Micros { return rule.Micros(r.number()) }

// read reads the answers to the requests of a call.
func (t *roundTrip) read(reply string, batch []store.Request, d *draft) error {
	r := &reader{text: reply}
	now := r.micros()
	if r.text == "" && !r.bad && d.path == generalPath {
		t.serverTime = now
		return errOutside
	}
	var counts [rule.MaxSegments + 1]int64
	short := r.short() // how many charges a fast path has decided
	if d.path != generalPath {
		d.readFast(r, short, now, batch, counts[:])
	}
	for _, at := range d.of[min(short, len(d.of)):] {
		request := &batch[at]
		for j := range request.Charges {
			request.Answers[j], request.Err = r.answer(request, j, now, counts[:])
		}
	}
	if r.bad || r.text != "" {
		return errReply
	}
	return nil
}

// answer reads the script's decision on the j-th charge of a request.
func (r *reader) answer(request *store.Request, j int, now rule.Micros, counts []int64) (a rule.Answer, err error) {
	l := request.Charges[j].Limit.Rule()
	flags, length := r.short(), r.short()
	granted, cost, at := r.number(), r.number(), r.micros()
	allowed, moved, lost := flags&replyAllowed != 0, flags&replyMoved != 0, flags&replyLost != 0
	inParts := flags&replyInParts != 0
	switch {
	case flags&replyOtherVersion != 0: // which comes instead of the length
		return a, versionError(length)
	case flags&replyHeld == 0 && isList(l, inParts):
		live, newest, blocking := r.number(), r.micros(), r.micros()
		a = port.AnswerLog(l, live, newest, blocking, now, at, moved, cost, granted, allowed || lost)
	default:
		s := r.state(l, inParts, length, counts)
		if flags&replyHeld != 0 {
			s.Holds = r.holds()
		}
		a = port.Answer(l, &s, now, cost, granted, allowed || lost, moved, request.Hold)
		if lost {
			a.Flags |= l.Answer(&s, now, l.Capacity()+1, 0, false, false).Flags & rule.Held // a refusal for good
		}
	}
	if lost {
		a.Allowed, a.NextAfter, a.RetryAfter = false, 0, rule.Never
	}
	if flags&replyRepeated != 0 {
		a.Flags |= rule.Repeated
	}
	if flags&replyUnsettled != 0 {
		a.Flags |= rule.Unsettled
	}
	if flags&replyNotOnce != 0 {
		a.Flags |= rule.NotOnce
	}
	if request.Op == rule.Take && flags&replyRepeated != 0 {
		a.At = at // of the first
	}
	return a, nil
}

// versionError is the error of a key whose state has another version.
func versionError(version int) error {
	return fmt.Errorf("redisstore: the state of this key has format %d, and this program reads the formats 1 to 3 and 16; upgrade this program, "+
		"or delete the key to start over", version)
}

// isList reports whether a state lists every unit: a log, or slots.
func isList(l *rule.Limit, inParts bool) bool {
	return l.Algorithm == rule.SlidingLog || l.Algorithm == rule.InFlight || l.Algorithm == rule.DefaultAlgorithm && !inParts
}

// state reads a state of the given length; 0 means that there is none.
func (r *reader) state(l *rule.Limit, inParts bool, length int, counts []int64) (s rule.State) {
	switch {
	case isList(l, inParts):
		r.log(l, &s.Log, length)
	case length == 0 && l.Algorithm == rule.TokenBucket:
	case length == 0:
		s.Start = rule.Absent
	case l.Algorithm == rule.TokenBucket:
		s.Start, s.Missing, s.Rest, s.Until = r.micros(), r.number(), r.number(), r.micros()
	default:
		s.Start = r.micros()
		s.Counts = counts[:l.Parts()]
		for i := range s.Counts {
			s.Counts[i] = r.number()
		}
	}
	return s
}

// log reads the units of a log as they are stored.
func (r *reader) log(l *rule.Limit, log *rule.Log, length int) {
	width := 4
	if l.Window > longLog {
		width = 6
	}
	base, n := r.micros(), (length-8)/width
	log.Restart(max(n, 0), l.Window)
	for range n {
		b, since := r.bytes(width), rule.Micros(0)
		for i := range width {
			since |= rule.Micros(b[i]) << (8 * i)
		}
		log.Append(base + since)
	}
}

// longLog is the longest window of a log with 4 bytes per unit.
const longLog = rule.Micros(3_600_000_000)

// holds reads what is held of a key.
func (r *reader) holds() []rule.Hold {
	holds := make([]rule.Hold, min(r.short(), rule.MaxHolds))
	for i := range holds {
		id := rule.ID(r.word())
		holds[i] = rule.Hold{ID: id, Units: r.number(), Ends: r.micros(), Length: r.micros()}
	}
	return holds
}
