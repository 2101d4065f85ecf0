package kvstore

import "github.com/slidegate/slidegate/rule"

// Bounds that tests reach.
const (
	TogetherForTest = maxTogether
	StreakForTest   = maxStreak
)

// CollideForTest shortens the hashes in names, so that keys share entries.
func (s *Store) CollideForTest(hashBytes int) { s.hashBytes = hashBytes }

// LinesForTest returns the number of lines.
func (s *Store) LinesForTest() (n int) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += len(s.shards[i].lines)
		s.shards[i].mu.Unlock()
	}
	return n
}

// RememberedForTest returns the number of remembered entries.
func (s *Store) RememberedForTest() (n int) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += len(s.shards[i].remembered)
		s.shards[i].mu.Unlock()
	}
	return n
}

// ReencodeForTest decodes an entry, with all of its states as states of limit, and encodes it again.
func ReencodeForTest(value []byte, limit *rule.Limit, now rule.Micros) ([]byte, error) {
	e, err := decodeEntry(value)
	if err != nil {
		return nil, err
	}
	for _, r := range e.records {
		switch kind(r.id[0]) {
		case stateKind:
			_, err = e.state(r.id, limit)
		case onceKind:
			_, err = e.generation(r.id)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		r.payload = nil
	}
	value, _ = e.encode(now)
	return value, nil
}
