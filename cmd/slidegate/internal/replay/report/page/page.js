// Draws the charts. The figures and tables of the page work without it.
(function () {
  "use strict";

  var root = document.documentElement;
  var data = JSON.parse(document.getElementById("drawing").textContent);
  var charts = {};
  var printing = false;
  root.classList.add("scripts");

  // ---- words -------------------------------------------------------------------------------------------------------

  function number(n) { return n.toLocaleString("en-US"); }

  function short(n) {
    if (n >= 1e6) return trim(n / 1e6) + "M";
    if (n >= 1e4) return trim(n / 1e3) + "k";
    return number(n);
  }

  function trim(n) { return String(Math.round(n * 10) / 10); }

  // percent formats like the Go function of the same name, which wrote the tables.
  function percent(part, whole) {
    if (whole <= 0 || part <= 0) return "0 %";
    if (part === whole) return "100 %";
    var p = 100 * part / whole;
    if (p < 0.01) return "< 0.01 %";
    if (p < 0.095) return p.toFixed(2) + " %";
    if (p > 99.9) return "> 99.9 %";
    return p.toFixed(1) + " %";
  }

  // span formats a duration in its two largest units, as the tables do.
  function span(ms) {
    var units = [[86400000, "d"], [3600000, "h"], [60000, "m"], [1000, "s"], [1, "ms"]];
    for (var i = 0; i < units.length; i++) {
      if (ms < units[i][0]) continue;
      var rest = i + 1 < units.length ? Math.floor(ms % units[i][0] / units[i + 1][0]) : 0;
      return Math.floor(ms / units[i][0]) + units[i][1] + (rest > 0 ? " " + rest + units[i + 1][1] : "");
    }
    return Math.round(1000 * ms) + "µs";
  }

  function two(n) { return (n < 10 ? "0" : "") + n; }

  var months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  function day(t) { return t.getUTCDate() + " " + months[t.getUTCMonth()]; }

  function clock(t, seconds) {
    return two(t.getUTCHours()) + ":" + two(t.getUTCMinutes()) + (seconds ? ":" + two(t.getUTCSeconds()) : "");
  }

  // tick labels a time on the axis: the time of day, and below it the date at midnight, so that labels are about equally wide.
  function tick(ms) {
    var t = new Date(ms);
    return clock(t, ms % 60000 !== 0) + (ms % 86400000 === 0 ? "\n" + day(t) : "");
  }

  function timeRange(from, to) {
    var a = new Date(from), b = new Date(to), seconds = (to - from) % 60000 !== 0 || from % 60000 !== 0;
    var end = day(a) === day(b) || to - from < 86400000 ? clock(b, seconds) : day(b) + " " + clock(b, seconds);
    return day(a) + ", " + clock(a, seconds) + " to " + end + " UTC";
  }

  // tip returns the content of a tooltip. It builds elements instead of markup, so that no text of the traffic is read as markup.
  function tip(title, rows) {
    var box = document.createElement("div");
    box.className = "tip";
    var head = document.createElement("b");
    head.textContent = title;
    box.appendChild(head);
    rows.forEach(function (row) {
      var line = document.createElement("div");
      row.forEach(function (text) {
        var part = document.createElement("span");
        part.textContent = text;
        line.appendChild(part);
      });
      box.appendChild(line);
    });
    return box;
  }

  // ---- theme -------------------------------------------------------------------------------------------------------

  function colour(name) { return getComputedStyle(root).getPropertyValue("--" + name).trim(); }

  function ink() {
    var names = ["card", "line", "soft", "ink", "dim", "faint", "admitted", "refused", "touched"];
    var all = {};
    names.forEach(function (name) { all[name] = colour(name); });
    return all;
  }

  var themes = ["auto", "light", "dark"];

  // A page that is opened as a file may have no storage: the choice then lasts until the page is closed.
  function storedTheme() {
    try { return localStorage.getItem("slidegate-theme") || "auto"; } catch (e) { return "auto"; }
  }

  function setTheme(theme) {
    if (theme === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", theme);
    var button = document.getElementById("theme");
    button.hidden = false;
    button.querySelector("span").textContent = theme;
    try { localStorage.setItem("slidegate-theme", theme); } catch (e) { /* no storage */ }
    redraw();
  }

  // ---- common to all charts -----------------------------------------------------------------------------------------

  function narrow() { return window.innerWidth <= 720; }

  function base(c, description) {
    return {
      animation: false,
      useUTC: true,
      textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: c.dim },
      aria: { enabled: true, label: { description: description } },
      grid: { left: 8, right: 14, top: 34, bottom: 8, containLabel: true },
      legend: { show: false },
      tooltip: {
        trigger: "axis", confine: true, backgroundColor: c.card, borderColor: c.line, padding: [8, 12],
        textStyle: { color: c.ink }, axisPointer: { type: "line", lineStyle: { color: c.faint, type: "dotted" } }
      }
    };
  }

  function valueAxis(c, name, format) {
    return {
      type: "value", name: name, nameLocation: "end", nameGap: 14, splitNumber: 4,
      nameTextStyle: { align: "left", color: c.faint, fontSize: 12, padding: [0, 0, 0, -4] },
      axisLabel: { color: c.faint, fontSize: 12, formatter: format }, splitLine: { lineStyle: { color: c.line } },
      axisLine: { show: false }, axisTick: { show: false }
    };
  }

  function timeAxis(c) {
    var t = data.timeline;
    return {
      type: "time", min: t.from, max: t.from + t.admitted.length * t.width, splitNumber: narrow() ? 3 : 8,
      axisLabel: { color: c.faint, fontSize: 12, hideOverlap: true, lineHeight: 15, formatter: tick },
      axisLine: { lineStyle: { color: c.line } }, axisTick: { lineStyle: { color: c.line } }, splitLine: { show: false }
    };
  }

  function zoom(c) {
    return [{
      type: "slider", height: 22, bottom: 4, left: 40, right: 30, brushSelect: false, showDetail: false,
      borderColor: "transparent", backgroundColor: c.soft, fillerColor: c.admitted + "18",
      dataBackground: { lineStyle: { color: c.faint, opacity: .5 }, areaStyle: { color: c.faint, opacity: .15 } },
      selectedDataBackground: { lineStyle: { color: c.admitted }, areaStyle: { color: c.admitted, opacity: .2 } },
      handleStyle: { color: c.card, borderColor: c.faint }, moveHandleStyle: { color: c.faint, opacity: .35 },
      emphasis: { handleStyle: { borderColor: c.admitted }, moveHandleStyle: { color: c.admitted } }
    }];
  }

  // ---- requests over time ------------------------------------------------------------------------------------------

  var zoomRange = { start: 0, end: 100 }; // the zoomed range, in percent

  // bins merges neighbouring buckets until the bars are wide enough to be seen.
  function bins() {
    var t = data.timeline, available = Math.max(100, document.getElementById("timeline").clientWidth - 70);
    var visible = Math.max(1, t.admitted.length * (zoomRange.end - zoomRange.start) / 100);
    var each = Math.max(1, Math.ceil(visible * 3.2 / available));
    var out = { each: each, admitted: [], refused: [], bar: Math.max(1, available / visible * each * .82) };
    for (var i = 0; i < t.admitted.length; i += each) {
      var a = 0, d = 0, n = Math.min(each, t.admitted.length - i);
      for (var j = i; j < i + n; j++) { a += t.admitted[j]; d += t.refused[j]; }
      var at = t.from + (i + n / 2) * t.width;
      out.admitted.push([at, a, i, n]);
      out.refused.push([at, d, i, n]);
    }
    return out;
  }

  function bars(c) {
    var b = bins();
    return [
      { name: "admitted", type: "bar", stack: "all", data: b.admitted, barWidth: b.bar, itemStyle: { color: c.admitted } },
      {
        name: "refused", type: "bar", stack: "all", data: b.refused, barWidth: b.bar,
        itemStyle: { color: c.refused, decal: { symbol: "rect", color: c.card + "66", dashArrayX: [1, 0], dashArrayY: [2, 3], rotation: -Math.PI / 4 } }
      }
    ];
  }

  function drawTimeline(c) {
    var t = data.timeline, b = bins();
    var option = base(c, "Stacked bars over time: requests admitted and requests refused. The figures above the chart are the totals.");
    option.grid.bottom = 40;
    option.xAxis = timeAxis(c);
    option.yAxis = valueAxis(c, "requests per " + span(b.each * t.width), short);
    option.dataZoom = zoom(c);
    option.dataZoom[0].start = zoomRange.start;
    option.dataZoom[0].end = zoomRange.end;
    option.series = bars(c);
    option.tooltip.formatter = function (items) {
      var i = items[0].value[2], n = items[0].value[3], a = 0, d = 0;
      for (var j = i; j < i + n; j++) { a += t.admitted[j]; d += t.refused[j]; }
      return tip(timeRange(t.from + i * t.width, t.from + (i + n) * t.width), [
        ["Admitted", number(a)], ["Refused", number(d)], ["Share refused", percent(d, a + d)]
      ]);
    };
    return option;
  }

  function onZoom() {
    var z = charts.timeline.getOption().dataZoom[0];
    var before = bins().each;
    zoomRange = { start: z.start, end: z.end };
    var b = bins(), c = ink();
    var update = { series: bars(c) };
    if (b.each !== before) update.yAxis = { name: "requests per " + span(b.each * data.timeline.width) };
    charts.timeline.setOption(update);
  }

  function moveZoom(how) {
    var width = zoomRange.end - zoomRange.start, middle = (zoomRange.start + zoomRange.end) / 2;
    if (how === "in") width = Math.max(2, width / 2);
    if (how === "out") width = Math.min(100, width * 2);
    if (how === "left") middle -= width / 2;
    if (how === "right") middle += width / 2;
    middle = Math.min(100 - width / 2, Math.max(width / 2, middle));
    charts.timeline.dispatchAction({ type: "dataZoom", start: middle - width / 2, end: middle + width / 2 });
  }

  // ---- other quotas ------------------------------------------------------------------------------------------------

  // ticks are the round numbers of a logarithmic axis: 1, 2, 5, 10, 20, 50, ...
  function ticks(from, to) {
    var all = [];
    for (var p = Math.pow(10, Math.floor(Math.log10(from))); p <= to; p *= 10) {
      [1, 2, 5].forEach(function (m) { if (m * p >= from && m * p <= to) all.push(m * p); });
    }
    return all.length > 1 ? all : [from, to];
  }

  function drawSweep(c) {
    var s = data.sweep, points = s.points;
    var from = points[0].quota, to = points[points.length - 1].quota;
    var line = function (name, colour, symbol, type, value) {
      return {
        name: name, type: "line", symbol: symbol, symbolSize: 7, showAllSymbol: true,
        lineStyle: { color: colour, width: 2, type: type }, itemStyle: { color: colour },
        data: points.map(function (p) { return [Math.log10(p.quota), value(p)]; })
      };
    };
    var share = function (part, whole) { return whole > 0 ? 100 * part / whole : 0; };
    var option = base(c, "Two lines over the quota: the share of requests refused and the share of keys touched. The table below has the same figures.");
    option.grid.bottom = 32;
    option.xAxis = {
      type: "value", min: Math.log10(from), max: to > from ? Math.log10(to) : Math.log10(from) + 1,
      name: "quota per " + data.window, nameLocation: "middle", nameGap: 28, nameTextStyle: { color: c.faint, fontSize: 12 },
      axisLabel: { color: c.faint, fontSize: 12, hideOverlap: true, customValues: ticks(from, to).map(Math.log10), formatter: function (v) { return short(Math.round(Math.pow(10, v))); } },
      axisTick: { show: true, lineStyle: { color: c.line }, customValues: ticks(from, to).map(Math.log10) },
      axisLine: { lineStyle: { color: c.line } }, splitLine: { show: false }
    };
    option.yAxis = valueAxis(c, "", function (v) { return trim(v) + " %"; });
    option.yAxis.min = 0;
    option.series = [
      line("requests refused", c.refused, "circle", "solid", function (p) { return share(p.refused, p.admitted + p.refused); }),
      line("keys touched", c.touched, "diamond", [6, 4], function (p) { return share(p.keys_touched, s.keys); })
    ];
    option.series[0].markLine = marks(c, from, to);
    option.grid.top = 24 + Math.max.apply(null, [0].concat(option.series[0].markLine.data.map(function (m) { return m.label.distance; })));
    option.tooltip.formatter = function (items) {
      var p = points[items[0].dataIndex];
      return tip(number(p.quota) + " " + data.noun + "s per " + data.window, [
        ["Requests refused", number(p.refused) + " (" + percent(p.refused, p.admitted + p.refused) + ")"],
        ["Keys touched", number(p.keys_touched) + " (" + percent(p.keys_touched, s.keys) + ")"]
      ]);
    };
    return option;
  }

  // marks are vertical lines at the named quotas. A quota with two names gets one line with both, and labels of
  // neighbours are at different heights.
  function marks(c, from, to) {
    var s = data.sweep, named = {};
    [[data.quota, "chosen"], [s.knee, "knee"], [s.suggested, "suggested"]].forEach(function (m) {
      if (m[0] >= from && m[0] <= to) named[m[0]] = (named[m[0]] ? named[m[0]] + ", " : "") + m[1];
    });
    var quotas = Object.keys(named).map(Number).sort(function (a, b) { return a - b; });
    var position = function (q) { return (Math.log10(q) - Math.log10(from)) / (Math.log10(to / from) || 1); };
    var near = narrow() ? .5 : .14, heights = [];
    for (var i = quotas.length - 1; i >= 0; i--) {
      heights[i] = i + 1 < quotas.length && position(quotas[i + 1]) - position(quotas[i]) < near ? heights[i + 1] + 1 : 0;
    }
    return {
      silent: true, symbol: "none",
      data: quotas.map(function (q, i) {
        return {
          xAxis: Math.log10(q), lineStyle: { color: c.dim, width: 1.2, type: named[q].indexOf("chosen") === 0 ? "solid" : [3, 3] },
          label: {
            formatter: named[q] + " " + number(q), position: "end", color: c.ink, fontSize: 12, distance: 4 + 15 * heights[i],
            align: position(q) > .85 ? "right" : position(q) < .15 ? "left" : "center"
          }
        };
      })
    };
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------

  var drawers = { timeline: drawTimeline, sweep: drawSweep };

  function redraw() {
    var c = ink();
    Object.keys(charts).forEach(function (id) {
      charts[id].setOption(drawers[id](c), true);
      document.querySelectorAll("[data-chart=" + id + "]").forEach(function (button) {
        if (button.getAttribute("aria-pressed") === "false") {
          charts[id].dispatchAction({ type: "legendUnSelect", name: button.dataset.series });
        }
      });
    });
  }

  function resize() {
    Object.keys(charts).forEach(function (id) { charts[id].resize(); });
    redraw();
  }

  function start() {
    Object.keys(drawers).forEach(function (id) {
      var box = document.getElementById(id);
      if (box) charts[id] = echarts.init(box, null, { renderer: "canvas" });
    });
    if (charts.timeline) charts.timeline.on("datazoom", onZoom);
    setTheme(storedTheme());
    window.slidegateCharts = charts; // for tests and debugging
  }

  document.querySelectorAll("[data-series]").forEach(function (button) {
    button.addEventListener("click", function () {
      var on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      charts[button.dataset.chart].dispatchAction({ type: on ? "legendSelect" : "legendUnSelect", name: button.dataset.series });
    });
  });
  document.querySelectorAll("[data-zoom]").forEach(function (button) {
    button.addEventListener("click", function () { moveZoom(button.dataset.zoom); });
  });
  document.getElementById("theme").addEventListener("click", function () {
    setTheme(themes[(themes.indexOf(current()) + 1) % themes.length]);
  });
  function current() { return root.getAttribute("data-theme") || "auto"; }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  var width = 0;
  new ResizeObserver(function () { // a change of height needs no redraw
    if (printing || document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    resize();
  }).observe(document.body);

  // Paper is light and narrow, and closed details cannot be opened on it.
  var before = "auto", closed = [];
  addEventListener("beforeprint", function () {
    printing = true;
    before = current();
    root.setAttribute("data-theme", "light");
    closed = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    closed.forEach(function (d) { d.open = true; });
    Object.keys(charts).forEach(function (id) { charts[id].resize({ width: 640 }); });
    redraw();
  });
  addEventListener("afterprint", function () {
    printing = false;
    closed.forEach(function (d) { d.open = false; });
    if (before === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", before);
    Object.keys(charts).forEach(function (id) { charts[id].resize({ width: "auto" }); });
    redraw();
  });

  start();
})();
