package worstcase

import "github.com/slidegate/slidegate/rule"

// MostWithin returns the most units that any stretch of the given length holds, wherever it starts. A stretch is
// half-open, (t, t+length], so one of n microseconds holds n moments. The admissions are in order of time.
func MostWithin(admissions []Admission, length rule.Micros) int64 {
	if length <= 0 {
		return 0 // a stretch of no length holds nothing
	}
	var most, held int64
	first := 0
	for _, a := range admissions {
		held += a.Units
		for ; admissions[first].At <= a.At-length; first++ {
			held -= admissions[first].Units
		}
		most = max(most, held)
	}
	return most
}

// ShortestOver returns the length of the shortest stretch that holds more than quota units, or 0 if none does however
// long it is. The admissions are in order of time.
func ShortestOver(admissions []Admission, quota int64) rule.Micros {
	var shortest rule.Micros
	var held int64
	first := 0
	for _, a := range admissions {
		held += a.Units
		for held-admissions[first].Units > quota {
			held -= admissions[first].Units
			first++
		}
		if held <= quota {
			continue
		}
		if length := a.At - admissions[first].At + 1; shortest == 0 || length < shortest {
			shortest = length
		}
	}
	return shortest
}
