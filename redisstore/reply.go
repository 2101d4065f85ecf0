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
			request.Answers[j], request.Err = r.answer(request.Charges[j].Limit.Rule(), now, counts[:])
		}
	}
	if r.bad || r.text != "" {
		return errReply
	}
	return nil
}

// answer reads the script's decision on a charge.
func (r *reader) answer(l *rule.Limit, now rule.Micros, counts []int64) (a rule.Answer, err error) {
	flags := r.byte()
	length := r.short()
	granted, cost, at := r.number(), r.number(), r.micros()
	allowed, moved := flags&replyAllowed != 0, flags&replyMoved != 0
	switch {
	case flags&replyOtherVersion != 0: // which comes instead of the length
		return a, fmt.Errorf("redisstore: the state of this key has version %d, which this program does not know; upgrade this program, "+
			"or delete the key to start over", length)
	case l.Algorithm == rule.SlidingLog || l.Algorithm == rule.InFlight || l.Algorithm == rule.DefaultAlgorithm && flags&replyInParts == 0:
		live, newest, blocking := r.number(), r.micros(), r.micros()
		a = port.AnswerLog(l, live, newest, blocking, now, at, moved, cost, granted, allowed)
	default:
		s := r.state(l, length, counts)
		a = port.Answer(l, &s, now, cost, granted, allowed, moved, false)
	}
	if flags&replyRepeated != 0 {
		a.Flags |= rule.Repeated
	}
	if flags&replyUnsettled != 0 {
		a.Flags |= rule.Unsettled
	}
	return a, nil
}

// state reads a state of the given length; 0 means that there is none.
func (r *reader) state(l *rule.Limit, length int, counts []int64) (s rule.State) {
	switch {
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
