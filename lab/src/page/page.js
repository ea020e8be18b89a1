// Hands the data of each chart to ECharts, when the reader comes near it.
(() => {
  const charts = JSON.parse(document.getElementById('charts').textContent);
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const short = (value) => {
    const size = Math.abs(value);
    if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
    if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
    return `${+value.toPrecision(4)}`;
  };

  const option = (chart) => {
    const text = dark.matches ? '#e4e6ea' : '#1b1d21';
    const isTime = chart.kind === 'time';
    const isStacked = chart.kind === 'stacked';
    // Names that do not fit side by side would be left out.
    const isCrowded = isStacked || (chart.kind === 'bar' && chart.labels.length > 8);
    const grid = { splitLine: { lineStyle: { color: '#8884' } }, nameTextStyle: { color: text } };
    const series = chart.series.map((own, place) => ({
      name: own.name,
      type: isStacked || chart.kind === 'bar' ? 'bar' : 'line',
      stack: isStacked ? 'all' : undefined,
      data: own.data,
      color: own.color ?? undefined,
      symbol: own.symbol ?? 'circle',
      symbolSize: own.thin ? 5 : 8,
      showSymbol: own.dots,
      connectNulls: true,
      animation: false,
      lineStyle: { width: isTime || own.thin ? 1.3 : 2, type: own.printed ? 'dashed' : 'solid' },
      // From the least to the greatest of the repeats, through the point or the bar.
      markLine: own.whiskers.length === 0 ? undefined : {
        silent: true,
        animation: false,
        symbol: 'none',
        label: { show: false },
        lineStyle: { width: 1, type: 'solid', color: chart.kind === 'bar' ? text : own.color ?? undefined },
        data: own.whiskers.map(([at, low, high]) => [{ coord: [at, low] }, { coord: [at, high] }]),
      },
      markArea: place > 0 || chart.spans.length === 0 ? undefined : {
        silent: true,
        itemStyle: { color: '#8883' },
        data: chart.spans.map(([from, to]) => [{ xAxis: from }, { xAxis: to }]),
      },
    }));
    return {
      textStyle: { color: text },
      title: { text: chart.caption, textStyle: { color: text, fontSize: 14 }, left: 0, top: 0 },
      legend: { type: 'scroll', bottom: 0, textStyle: { color: text } },
      tooltip: { trigger: 'axis', confine: true, valueFormatter: (value) => (value == null ? '–' : short(value)) },
      toolbox: { right: 0, feature: { dataZoom: { yAxisIndex: 'none' }, restore: {}, saveAsImage: {} } },
      // The wheel scrolls the page; with the shift key it zooms.
      dataZoom: [{ type: 'inside', zoomOnMouseWheel: 'shift', moveOnMouseMove: true }],
      grid: { left: 8, right: 18, top: 58, bottom: 48, containLabel: true },
      xAxis: {
        ...grid, type: isTime ? 'value' : 'category', data: isTime ? undefined : chart.labels, name: chart.x,
        nameLocation: 'middle', nameGap: 24,
        axisLabel: isCrowded ? { color: text, interval: 0, fontSize: 10, rotate: 30 } : { color: text },
        max: isTime ? 'dataMax' : undefined,
      },
      yAxis: {
        ...grid, type: chart.log ? 'log' : 'value', name: chart.y, nameGap: 10,
        nameTextStyle: { color: text, align: 'left' }, axisLabel: { color: text, formatter: short },
        min: chart.min ?? undefined, max: chart.max ?? undefined,
      },
      series,
    };
  };

  const drawn = new Map();
  const draw = (place) => {
    const chart = drawn.get(place) ?? echarts.init(place);
    chart.setOption(option(charts[place.dataset.chart]), true);
    drawn.set(place, chart);
  };
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting) {
        observer.unobserve(target);
        draw(target);
      }
    }
  }, { rootMargin: '600px' });
  document.querySelectorAll('.chart').forEach((place) => observer.observe(place));
  addEventListener('resize', () => drawn.forEach((chart) => chart.resize()));
  dark.addEventListener('change', () => drawn.forEach((_, place) => draw(place)));
  addEventListener('beforeprint', () => document.querySelectorAll('.chart').forEach(draw));
})();
