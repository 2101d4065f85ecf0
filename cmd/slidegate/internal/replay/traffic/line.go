package traffic

import "github.com/slidegate/slidegate/rule"

// Line is one request as traffic recorded it: when, who, how much. Its bytes are valid until the next call of Next on
// where it came from.
type Line struct {
	At   rule.Micros // since the Unix epoch
	Key  []byte      // who is limited
	Cost int64       // units, 0 or more
	Time []byte      // At as a JSON value, in the words of the input: 1767643391854 or "2026-11-15T06:48:34Z"
	// About is what else the log tells of the request, if that was asked for.
	About About
	// Parts are what the request has to do with each policy that it faces, where policies are replayed; Key and Cost are then
	// those of the first.
	Parts []Part
}

// About is what a log tells of a request beside its key and its cost. A nil part is one that it does not tell.
type About struct {
	Method, Path, Agent, Status []byte
}

// Part is one policy's part in a request.
type Part struct {
	Group int // of the groups of the policies
	Key   []byte
	Cost  int64
}

// Lines is traffic that can be read once, from its beginning to io.EOF.
type Lines interface {
	// Next fills line with the next request. It returns io.EOF after the last one.
	Next(line *Line) error
}
