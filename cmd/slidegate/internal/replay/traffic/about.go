package traffic

import "github.com/slidegate/slidegate/config"

// about holds the indexes of the fields of Line.About in the values of an entry; -1 if the format does not have them.
type about struct {
	method, path, agent, status int
}

// planAbout requests the fields of About that the format has.
func (p *plan) planAbout(s shape) {
	slot := func(kind config.FieldKind, name string) int {
		if kind != config.FieldHeader && !s.fields().has(kinds[kind]) {
			return -1
		}
		slot, ok := p.want(s, config.Field{Kind: kind, Name: name})
		if !ok {
			return -1
		}
		return slot
	}
	p.about = &about{
		method: slot(config.FieldMethod, ""), path: slot(config.FieldPath, ""),
		agent: slot(config.FieldHeader, "User-Agent"), status: slot(config.FieldStatus, ""),
	}
}

func (a *about) of(e *entry) Details {
	value := func(slot int) []byte {
		if slot < 0 {
			return nil
		}
		return e.values[slot]
	}
	return Details{Method: value(a.method), Path: value(a.path), Agent: value(a.agent), Status: value(a.status)}
}
