// Runs before the first paint, so that a chosen theme never flashes. A file of its own, because the page's
// Content-Security-Policy allows no inline script.
(() => {
  try {
    const theme = localStorage.getItem('theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is blocked: the system's theme it is.
  }
})();
