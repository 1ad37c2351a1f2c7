/** How often a page that stays open asks what has become of its models: retirements are announced, moved and withdrawn meanwhile. */
export const catalogRefreshMs = 30_000;
