// Package routers tests the HTTP middleware and its adapters against one table of behaviours, in every router and behind real
// servers. It is a separate module, because it needs all of the routers.
package routers
