package worstcase

import "github.com/slidegate/slidegate/rule"

// MostWithin returns the most units in any interval of the given length, wherever it starts. An interval is half-open, (t,
// t+length], so one of n microseconds contains n instants. The admissions are in order of time.
func MostWithin(admissions []Admission, length rule.Micros) int64 {
	if length <= 0 {
		return 0 // an interval of length 0 contains nothing
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

// ShortestOver returns the length of the shortest interval that contains more than quota units, or 0 if there is none of
// any length. The admissions are in order of time.
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
