package config

import (
	"fmt"
	"net/http"

	"github.com/slidegate/slidegate/internal/fields"
)

// MissingFields returns which fields of a policy's key a request lacks, and why, one text each. Such a field is replaced by the
// address of the client, or the next alternative of the key applies.
func (f *File) MissingFields(p *Policy, r *http.Request) (texts []string) {
	claims, err := f.Service.JWT.reader(f.claimPaths())
	if err != nil {
		return []string{fmt.Sprintf("tokens cannot be verified: %v", err)}
	}
	from := &source{claims: claims}
	for _, field := range p.Key.Fields() {
		if !field.Kind.NamesClient() || len(from.valueOf(field, r)) > 0 {
			continue
		}
		why := "the request does not have it"
		switch field.Kind {
		case fields.Claim:
			why = claims.Why(r, field.Name)
		case fields.User, fields.Key:
			why = "only a program that verifies clients itself can set it; the service does not know it"
		}
		texts = append(texts, fmt.Sprintf("{%v} is missing: %s", field, why))
	}
	return texts
}
