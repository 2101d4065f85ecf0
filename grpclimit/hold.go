package grpclimit

import "time"

// maxHolds bounds what a client remembers of servers' answers.
const maxHolds = 1 << 16

// holdKey identifies what a server's answer applies to: this key, in calls of this method, on this target. It is not the
// whole target, because servers limit methods differently, and the quota of one must not stop the others.
type holdKey struct{ target, method, key string }

// obey remembers the retry delay of a call's error, if there is one.
func (c *Client) obey(id holdKey, err error) {
	if err == nil {
		return
	}
	if wait, ok := RetryAfter(err); ok && wait > 0 {
		now := time.Now()
		c.holds.Add(id, now.Add(min(wait, c.maxObey)), "", now)
	}
}
