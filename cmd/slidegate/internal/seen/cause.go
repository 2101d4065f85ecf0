package seen

import (
	"cmp"
	"slices"

	"github.com/slidegate/slidegate"
)

// ByOther is the Event.By of refusals for more causes than are told apart.
const ByOther = "other"

// maxCauses is how many causes of refusals are told apart of a key within an hour; others are counted together.
const maxCauses = 1<<causeBits - 1

// cause is why a key was refused.
type cause struct {
	by     string
	limit  *slidegate.Limit // nil if no limit refused
	shadow bool             // in shadow mode, so that it was admitted
}

// limitText returns the limit, or "" if no limit refused.
func (c *cause) limitText() string {
	if c.limit == nil {
		return ""
	}
	return c.limit.String()
}

// causeOf returns the index of an event's cause. A new one takes the place of one that is not counted any more.
func (k *entry) causeOf(e *Event) uint8 {
	new := cause{e.By, e.Limit, e.Shadow}
	for i := range k.causes {
		if k.causes[i].same(&new) {
			return uint8(i)
		}
	}
	if len(k.causes) < maxCauses {
		k.causes = append(k.causes, new)
		return uint8(len(k.causes) - 1)
	}
	for i := range k.causes {
		if !slices.ContainsFunc(k.minutes, func(c cell) bool { return c.refused > 0 && int(c.cause()) == i }) {
			k.causes[i] = new
			return uint8(i)
		}
	}
	if len(k.causes) == maxCauses {
		k.causes = append(k.causes, cause{})
	}
	k.causes[maxCauses] = cause{by: ByOther, shadow: e.Shadow}
	return maxCauses
}

// same reports whether two causes are the same. After a reload, the same limit is at another address.
func (c *cause) same(o *cause) bool {
	return c.by == o.by && c.shadow == o.shadow && (c.limit == o.limit || c.limit != nil && o.limit != nil && *c.limit == *o.limit)
}

// cellOf returns the counts of the current minute that are for a cause.
func (k *entry) cellOf(cause uint8) *cell {
	minute := k.minutes[len(k.minutes)-1].minute()
	for i := len(k.minutes) - 1; i >= 0 && k.minutes[i].minute() == minute; i-- {
		if c := &k.minutes[i]; c.refused == 0 || c.cause() == cause {
			return c
		}
	}
	k.minutes = append(k.minutes, newCell(minute))
	return &k.minutes[len(k.minutes)-1]
}

// last returns what refused the key last.
func (k *entry) last() (c cause) {
	if int(k.lastCause) < len(k.causes) {
		return k.causes[k.lastCause]
	}
	return c
}

// noteCause is what an instance says of one cause: how often it refused the key, by window.
type noteCause struct {
	By      string              `json:"b"`
	Limit   string              `json:"l,omitempty"`
	Shadow  bool                `json:"h,omitempty"`
	Refused [len(Windows)]int64 `json:"n"`
}

// said returns the causes of refusals within the hour, for others. The shard is locked.
func (k *entry) said(now int64) (all []noteCause) {
	for i := range k.causes {
		c := &k.causes[i]
		one := noteCause{By: c.by, Limit: c.limitText(), Shadow: c.shadow}
		for w, window := range Windows {
			for j := range k.minutes {
				if m := &k.minutes[j]; int(m.cause()) == i && m.minute() >= now-window {
					one.Refused[w] += int64(m.refused)
				}
			}
		}
		if one.Refused[len(Windows)-1] > 0 {
			all = append(all, one)
		}
	}
	return all
}

// addCauses adds the causes of an instance to those of others.
func (m *merged) addCauses(causes []noteCause) {
	for _, c := range causes {
		i := slices.IndexFunc(m.causes, func(o noteCause) bool { return o.By == c.By && o.Limit == c.Limit && o.Shadow == c.Shadow })
		if i < 0 {
			if len(m.causes) > 4*maxCauses {
				continue // of many instances, each with other limits
			}
			i = len(m.causes)
			m.causes = append(m.causes, noteCause{By: c.By, Limit: c.Limit, Shadow: c.Shadow})
		}
		for w := range Windows {
			m.causes[i].Refused[w] += c.Refused[w]
		}
	}
}

// causesIn returns what refused the key in a window, what refused it most first.
func (m *merged) causesIn(w int) []Cause {
	all := []Cause{}
	for _, c := range m.causes {
		if c.Refused[w] > 0 {
			all = append(all, Cause{By: c.By, Limit: c.Limit, Shadow: c.Shadow, Refused: c.Refused[w]})
		}
	}
	slices.SortFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.By, b.By), cmp.Compare(a.Limit, b.Limit))
	})
	return all
}
