package grpclimit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
)

// Check returns an error if the Match of a policy matches no method of a server, which then would not limit anything: names of
// services and methods are case-sensitive. Call it when all services are registered, before Serve. The error suggests the
// method that was probably meant.
func (i *Interceptors) Check(server interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}) error {
	var methods, services []string
	for service, info := range server.GetServiceInfo() {
		services = append(services, "/"+service+"/*")
		for _, method := range info.Methods {
			methods = append(methods, "/"+service+"/"+method.Name)
		}
	}
	slices.Sort(methods)
	slices.Sort(services)
	var errs []error
	for _, p := range i.decider.policies {
		if p.Match == "" || slices.ContainsFunc(methods, p.matches) {
			continue
		}
		known := methods
		if p.service != "" {
			known = services
		}
		hint := "; the server has no methods"
		if len(known) > 0 {
			hint = fmt.Sprintf("; did you mean %q?", nearest(p.Match, known))
		}
		errs = append(errs, fmt.Errorf("grpclimit: policy %q: match: the server has no method %q%s", p.Name, p.Match, hint))
	}
	return errors.Join(errs...)
}

// nearest returns the name that shares the most pairs of letters with the given one, regardless of case.
func nearest(name string, known []string) string {
	pairs := func(text string) map[string]bool {
		found := map[string]bool{}
		for i := range len(text) - 1 {
			found[strings.ToLower(text[i:i+2])] = true
		}
		return found
	}
	wanted, best, most := pairs(name), known[0], -1.0
	for _, one := range known {
		own, shared := pairs(one), 0
		for pair := range maps.Keys(own) {
			if wanted[pair] {
				shared++
			}
		}
		if likeness := float64(2*shared) / float64(len(own)+len(wanted)); likeness > most {
			best, most = one, likeness
		}
	}
	return best
}
