package grpclimit

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/slidegate/slidegate/internal/errtext"
)

// Check returns an error if the Match of a policy matches no method of a server, which then would not limit anything: names of
// services and methods are case-sensitive. Call it when all services are registered, before Serve. The error suggests the
// method that was probably meant, if one is near.
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
			hint = errtext.DidYouMean(p.Match, known)
		}
		errs = append(errs, fmt.Errorf("grpclimit: policy %q: match: the server has no method %q%s", p.Name, p.Match, hint))
	}
	return errors.Join(errs...)
}
