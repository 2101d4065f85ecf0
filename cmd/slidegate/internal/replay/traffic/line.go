package traffic

import "github.com/slidegate/slidegate/rule"

// Line is one recorded request: its time, key and cost. Its bytes are valid until the next call of Next on its source.
type Line struct {
	At   rule.Micros // since the Unix epoch
	Key  []byte      // what is limited
	Cost int64       // units, 0 or more
	Time []byte      // At as a JSON value, as in the input: 1767643391854 or "2026-11-15T06:48:34Z"
	// About holds other fields of the request, if Options.About is set.
	About Details
	// Parts has one element per policy that applies to the request, if policies are replayed; Key and Cost are then those
	// of the first.
	Parts []Part
}

// Details holds fields of a request other than its key and cost. Fields that the log does not have are nil.
type Details struct {
	Method, Path, Agent, Status []byte
}

// Part is a request under one policy.
type Part struct {
	Group int // the index in the groups of the policies
	Key   []byte
	Cost  int64
}

// Lines is traffic that can be read once, from its beginning to io.EOF.
type Lines interface {
	// Next fills line with the next request. It returns io.EOF after the last one.
	Next(line *Line) error
}
