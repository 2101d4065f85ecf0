package notify

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// EventType is the type of the only kind of event.
const EventType = "limit.near"

// Event is what receivers get, in the form that Standard Webhooks recommends.
type Event struct {
	ID   string    `json:"id"` // the same in every delivery
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"` // of the decision, by the store's clock
	Data Near      `json:"data"`
}

// Near is the data of an event: a key has used a part of a limit.
type Near struct {
	Policy   string    `json:"policy"`
	Key      string    `json:"key"`   // its first 1,024 bytes
	Limit    string    `json:"limit"` // its name, or its text if it has none
	Percent  int       `json:"percent"`
	Used     int64     `json:"used"`  // after the decision, at most Of
	Of       int64     `json:"of"`    // the quota, or the burst of a token bucket
	Reset    time.Time `json:"reset"` // when all of it is free again if nothing else arrives
	Plan     string    `json:"plan,omitempty"`
	Shadow   bool      `json:"shadow,omitempty"`
	Instance string    `json:"instance"`
}

func newEvent(c *gate.Crossing, instance string) Event {
	at := c.At.Time().UTC()
	return Event{Type: EventType, Time: at, Data: Near{
		Policy: c.Policy, Key: strings.Clone(c.Key[:min(len(c.Key), maxKey)]), Limit: c.Limit.Label(), Percent: c.Percent, Used: c.Used, Of: c.Size,
		Reset: at.Add(c.Reset), Plan: c.Plan, Shadow: c.Shadow, Instance: instance,
	}}
}

func (e *Event) encode() []byte {
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // unreachable: texts, numbers and times of this millennium
	}
	return body
}
