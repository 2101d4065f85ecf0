module github.com/slidegate/slidegate/httplimit/echo5limit

go 1.25.0

require github.com/labstack/echo/v5 v5.0.0
